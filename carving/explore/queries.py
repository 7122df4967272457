"""The view Ask: the answers to a path, and the scores of all values that explain them."""

from collections.abc import Sequence
from copy import copy

from carving.errors import BadValue
from carving.explore.params import Params
from carving.explore.scores import CandidateScores, score_all
from carving.explore.serializers import Json, answer_json, number, path_json, value_json
from carving.explore.sessions import Session, SessionStore
from carving.formats.typed import line_readings, value_readings, value_text
from carving.inference.answer import Answer
from carving.memory import Memory
from carving.memory.quantized import QuantizedMemory
from carving.symbols.codec import Path, Value, canonical_path

KINDS = ("one", "top", "set", "value")
MAX_SUGGESTIONS = 40  # paths or values
MAX_LISTED_CANDIDATES = 12
MAX_SENT_SCORES = 1500  # of more, a sample at equal steps of the rank
MAX_SEARCHED_VALUES = 100_000  # for suggestions


def paths(sessions: SessionStore, params: Params) -> Json:
    """Return known paths that contain the typed text."""
    known = sessions.get(params.text("session")).path_index
    found = known.find(params.text("text", ""), MAX_SUGGESTIONS)
    return dict(paths=list(map(path_json, found)), known=len(known))


def values(sessions: SessionStore, params: Params) -> Json:
    """Return values that contain the typed text."""
    vocabulary, wanted = sessions.get(params.text("session")).memory.vocabulary, params.text("text", "").lower()
    found: list[Value] = []
    for row in range(min(len(vocabulary), MAX_SEARCHED_VALUES)):
        if wanted in value_text(vocabulary[row]).lower():
            found.append(vocabulary[row])
            if len(found) == MAX_SUGGESTIONS:
                break
    return dict(values=list(map(value_json, found)), known=len(vocabulary))


def ask(sessions: SessionStore, params: Params) -> Json:
    """Return the answers to a path, and the scores of all values."""
    memory, kind = (
        copy(sessions.get(params.text("session")).memory),
        params.choice("kind", KINDS),
    )  # one snapshot
    prior_empty, line = params.number("prior_empty", 0.5), params.text("path")
    if not len(memory.vocabulary):
        raise BadValue("The memory is empty. Store something first.")
    path, best = _found(memory, line, prior_empty)
    seen = score_all(memory, path, prior_empty)
    return dict(
        path=path_json(path),
        kind=kind,
        answers=list(map(answer_json, _answers(memory, kind, path, best, params, prior_empty))),
        best=answer_json(best),
        scores=scores_json(memory, seen),
    )


def _found(memory: Memory | QuantizedMemory, line: str, prior_empty: float) -> tuple[Path, Answer]:
    """Return the first reading of a line that is found, or else the last one, with its answer."""
    readings = line_readings(line)
    answers: list[Answer] = memory.recall_many(readings, prior_empty=prior_empty)
    each = list(zip(readings, answers, strict=True))
    return next((pair for pair in each if pair[1].found), each[-1])


def _answers(
    memory: Memory | QuantizedMemory, kind: str, path: Path, best: Answer, params: Params, prior_empty: float
) -> Sequence[Answer]:
    if kind == "top":
        return memory.recall(*path, top=params.integer("top", 5, 1, 100), prior_empty=prior_empty)
    if kind == "set":
        return memory.recall_set(*path, prior_empty=prior_empty)
    if kind == "value":
        wanted = value_readings(params.text("value"), False)
        if not memory.has_probabilities:
            raise BadValue(
                "This scheme gives no probabilities, so it cannot recognize a value. Ask for the best value."
            )
        found = memory.recognize_many([(path, value) for value in wanted], prior_empty=prior_empty)
        return [max(found, key=lambda answer: answer.probability)]
    return [best]


def scores_json(memory: Memory | QuantizedMemory, seen: CandidateScores) -> Json:
    """Return the scores of all values, best first; a sample if there are many, which includes the best ones."""
    order = seen.scores.sort(descending=True)
    ranked, total = order.values.tolist(), len(order.values)
    head = ranked[:MAX_LISTED_CANDIDATES]
    step = max(1, -(-(total - MAX_LISTED_CANDIDATES) // MAX_SENT_SCORES))
    return dict(
        scores=[round(each, 4) for each in head + ranked[MAX_LISTED_CANDIDATES::step]],
        step=step,
        values=total,
        best=[_candidate(memory, seen, row) for row in seen.best(MAX_LISTED_CANDIDATES)],
        empty=number(seen.empty),
        noise=number(seen.noise),
        threshold=number(seen.threshold),
        is_cosine=seen.is_cosine,
    )


def _candidate(memory: Memory | QuantizedMemory, seen: CandidateScores, row: int) -> Json:
    probability = None if seen.probabilities is None else number(float(seen.probabilities[row]))
    return dict(value=value_json(memory.vocabulary[row]), score=float(seen.scores[row]), probability=probability)


def interpret_pair(session: Session, line: str, value: str) -> tuple[Path, Value]:
    """Return the typed pair. Known readings come first, then paths of several roles, then numbers."""
    readings = line_readings(line)
    known = session.path_index.names if len(readings) > 1 else ()
    path = next((each for each in readings if canonical_path(each) in known), None)
    path = path or next((each for each in readings if len(each) > 1), readings[0])
    values = value_readings(value, False)
    return path, next((each for each in values if each in session.memory.vocabulary), values[0])
