"""The view Ask: the answers to a path, and the scores of all values that explain them."""

from collections.abc import Sequence
from copy import copy

from carving.errors import BadValue
from carving.explore.exhibit import Copy, Gallery
from carving.explore.given import Given
from carving.explore.scores import CandidateScores, score_all
from carving.explore.shown import Json, answer_shown, number, path_shown, value_shown
from carving.formats.typed import line_readings, value_readings, value_text
from carving.inference.answer import Answer
from carving.memory import Memory
from carving.memory.quantized import QuantizedMemory
from carving.symbols.codec import Path, Value, canonical_path

KINDS = ("one", "top", "set", "value")
PICKED = 40  # suggested paths or values
NAMED = 12  # candidates that are listed by name
DRAWN = 1500  # scores that are sent: of more, a sample at equal steps of the rank
LOOKED = 100_000  # values that are searched for suggestions


def paths(gallery: Gallery, given: Given) -> Json:
    """Return known paths that contain the typed text."""
    known = gallery.copy(given.text("session")).catalogue
    found = known.find(given.text("text", ""), PICKED)
    return dict(paths=list(map(path_shown, found)), known=len(known))


def values(gallery: Gallery, given: Given) -> Json:
    """Return values that contain the typed text."""
    vocabulary, wanted = gallery.copy(given.text("session")).memory.vocabulary, given.text("text", "").lower()
    found: list[Value] = []
    for row in range(min(len(vocabulary), LOOKED)):
        if wanted in value_text(vocabulary[row]).lower():
            found.append(vocabulary[row])
            if len(found) == PICKED:
                break
    return dict(values=list(map(value_shown, found)), known=len(vocabulary))


def ask(gallery: Gallery, given: Given) -> Json:
    """Return the answers to a path, and the scores of all values."""
    memory, kind = (
        copy(gallery.copy(given.text("session")).memory),
        given.choice("kind", KINDS),
    )  # one snapshot
    prior_empty, line = given.number("prior_empty", 0.5), given.text("path")
    if not len(memory.vocabulary):
        raise BadValue("The memory is empty. Store something first.")
    path, best = _found(memory, line, prior_empty)
    seen = score_all(memory, path, prior_empty)
    return dict(
        path=path_shown(path),
        kind=kind,
        answers=list(map(answer_shown, _answers(memory, kind, path, best, given, prior_empty))),
        best=answer_shown(best),
        scores=scores_shown(memory, seen),
    )


def _found(memory: Memory | QuantizedMemory, line: str, prior_empty: float) -> tuple[Path, Answer]:
    """Return the first reading of a line that is found, or else the last one, with its answer."""
    readings = line_readings(line)
    answers: list[Answer] = memory.recall_many(readings, prior_empty=prior_empty)
    each = list(zip(readings, answers, strict=True))
    return next((pair for pair in each if pair[1].found), each[-1])


def _answers(
    memory: Memory | QuantizedMemory, kind: str, path: Path, best: Answer, given: Given, prior_empty: float
) -> Sequence[Answer]:
    if kind == "top":
        return memory.recall(*path, top=given.integer("top", 5, 1, 100), prior_empty=prior_empty)
    if kind == "set":
        return memory.recall_set(*path, prior_empty=prior_empty)
    if kind == "value":
        wanted = value_readings(given.text("value"), False)
        if not memory.has_probabilities:
            raise BadValue(
                "This scheme gives no probabilities, so it cannot recognize a value. Ask for the best value."
            )
        found = memory.recognize_many([(path, value) for value in wanted], prior_empty=prior_empty)
        return [max(found, key=lambda answer: answer.probability)]
    return [best]


def scores_shown(memory: Memory | QuantizedMemory, seen: CandidateScores) -> Json:
    """Return the scores of all values, best first; a sample if there are many, which includes the best ones."""
    order = seen.scores.sort(descending=True)
    ranked, total = order.values.tolist(), len(order.values)
    head = ranked[:NAMED]
    step = max(1, -(-(total - NAMED) // DRAWN))
    named = seen.best(NAMED)
    return dict(
        strengths=[round(each, 4) for each in head + ranked[NAMED::step]],
        step=step,
        values=total,
        named=[_named(memory, seen, row) for row in named],
        nothing=number(seen.empty),
        noise=number(seen.noise),
        threshold=number(seen.threshold),
        likeness=seen.is_cosine,
    )


def _named(memory: Memory | QuantizedMemory, seen: CandidateScores, row: int) -> Json:
    chance = None if seen.probabilities is None else number(float(seen.probabilities[row]))
    return dict(value=value_shown(memory.vocabulary[row]), strength=float(seen.scores[row]), probability=chance)


def meant(held: Copy, line: str, value: str) -> tuple[Path, Value]:
    """Return the typed pair. Known readings come first, then paths of several roles, then numbers."""
    readings = line_readings(line)
    known = held.catalogue.names if len(readings) > 1 else ()
    path = next((each for each in readings if canonical_path(each) in known), None)
    path = path or next((each for each in readings if len(each) > 1), readings[0])
    values = value_readings(value, False)
    return path, next((each for each in values if each in held.memory.vocabulary), values[0])
