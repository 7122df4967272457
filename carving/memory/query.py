"""Queries of a memory: recall, recognize, recall sets, decode jointly, and find the paths of a value.

The verbs of `Memory` are these functions of a reader; their arguments are documented there.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypedDict, Unpack

from carving.errors import BadType, BadValue
from carving.formats.documents import Document, Pair, rebuild
from carving.inference.amp import Decoding, Step
from carving.inference.answer import Answer, Answers
from carving.inference.likelihood import UNSEEN_COUNT
from carving.memory.models import Parts, Question, model_of
from carving.memory.pairs import BATCH, Batch, OnProgress, as_pair, report
from carving.memory.reader import EMPTY, Reader
from carving.memory.sharding import shared_paths
from carving.memory.state import known_paths
from carving.symbols.codec import Path, Value
from carving.symbols.paths import Paths, as_path
from carving.validate import check_integer, check_number, check_prior_empty, listed

DEFAULT_TARGET = 0.999  # the recall target of an index that nobody asked for
LARGE_VOCABULARY = 200_000  # values from which an index is faster than scoring all candidates

Found = tuple[Path, Answer]


class Asking(TypedDict, total=False):
    """Keyword arguments of `recall_set` and `rebuild_document`."""

    candidates: Iterable[Value] | None  # the values to consider; None for the whole vocabulary
    prior_empty: float  # prior probability that a path is empty
    on_progress: OnProgress | None


def recall_many(
    reader: Reader,
    paths: Iterable[Path],
    *,
    top: int | None = None,
    candidates: Iterable[Value] | None = None,
    prior_empty: float = 0.5,
    recall_target: float | None = None,
    on_progress: OnProgress | None = None,
) -> list[Any]:
    """Return one answer for each path, or with `top` one list of answers."""
    asked = check_paths(paths, reader)
    target = index_target(reader, recall_target, candidates is None)
    top = None if top is None else check_integer("top", top, 1)
    question = Question(asked, candidates, check_prior_empty(prior_empty), top, target)
    answers = _collected(model_of(reader).rank(question), on_progress)
    return answers if top is not None else [each[0] for each in answers]


def recognize_many(
    reader: Reader, pairs: Iterable[Pair], *, prior_empty: float = 0.5, on_progress: OnProgress | None = None
) -> list[Answer]:
    """Return one answer for each pair: how probably its value is stored there."""
    if not len(reader.vocabulary):
        raise BadValue(EMPTY)
    batch, answers = Batch([as_pair(pair) for pair in listed(pairs, "pairs")]), list[Answer]()
    for found in model_of(reader).recognize(batch, check_prior_empty(prior_empty)):
        each = zip(batch.values[len(answers) :], found.strengths.tolist(), found.probabilities.tolist(), strict=False)
        answers += [Answer(value, score, chance, found=not chance < 0.5) for value, score, chance in each]
        report(on_progress, len(found.strengths))
    return answers


def recall_sets(
    reader: Reader,
    paths: Iterable[Path],
    *,
    threshold: float = 0.5,
    candidates: Iterable[Value] | None = None,
    prior_empty: float = 0.5,
    on_progress: OnProgress | None = None,
) -> list[list[Answer]]:
    """Return one list of answers for each path, which may hold several values."""
    check_threshold(threshold)
    question = Question(check_paths(paths, reader), candidates, check_prior_empty(prior_empty))
    return _collected(model_of(reader).sets(question, threshold), on_progress)


def decode(
    reader: Reader,
    paths: Iterable[Path] | None = None,
    *,
    candidates: Iterable[Value] | None = None,
    prior_empty: float = 0.5,
    rounds: int = 100,
    on_progress: OnProgress | None = None,
) -> Answers:
    """Decode all paths jointly, by approximate message passing."""
    asked = check_paths(known_paths(reader.state).each() if paths is None else paths, reader)
    decoding, done = MessagePassing(reader, asked, candidates, prior_empty, rounds), 0
    for step in decoding:  # as many paths are done as the share of the memory that is explained
        now = max(done, round(len(asked) * (1 - min(1.0, step.left))))
        report(on_progress, now - done)
        done = now
    return decoding.answers()


def rebuild_document(reader: Reader, paths: Iterable[Path] | None = None, **how: Unpack[Asking]) -> Document:
    """Return the document of nested dicts and lists under the paths."""
    known = reader.path_counts
    paths = known_paths(reader.state) if paths is None else paths
    asked = Paths.of(paths)
    found = [[answer] for answer in recall_many(reader, asked, **how)]
    for row, name in enumerate(asked.names):
        if known is not None and known.count(name) > 1:  # the best answer may be one of several
            path, linear = asked[row : row + 1], reader.scheme.facts.linear
            several = recall_sets(reader, path, **how) if linear else recall_many(reader, path, top=2, **how)
            found[row] = several[0] or found[row]
    return rebuild((path, each.value) for path, own in zip(asked, found, strict=True) for each in own if each)


def where(
    reader: Reader,
    value: Value,
    paths: Iterable[Path] | None = None,
    *,
    threshold: float = 0.5,
    prior_empty: float | None = None,
    on_progress: OnProgress | None = None,
) -> list[Found]:
    """Return the paths that hold a value with at least this probability, most probable first."""
    asked = known_paths(reader.state) if paths is None else check_paths(paths, reader).distinct()[0]
    check_threshold(threshold)
    if not reader.scheme.facts.linear:
        raise BadValue(
            f"where() needs probabilities, which {reader.scheme} does not have, because its memory is not a plain sum. "
            'Use another scheme, or memory="raw".'
        )
    row = reader.vocabulary.find(value)
    if row is None:  # what was never stored is nowhere
        return []
    if prior_empty is None:
        prior_empty = 1 - min(0.5, max(1.0, float(reader.counts[row])) / max(1, len(asked)))
    found, each, model = list[Found](), iter(asked), model_of(reader)
    check_prior_empty(prior_empty)
    while part := list(islice(each, BATCH)):
        batch, done = Batch([(path, value) for path in part]), 0
        for some in model.recognize(batch, prior_empty):
            columns = zip(part[done:], some.strengths.tolist(), some.probabilities.tolist(), strict=False)
            found += [(path, Answer(value, score, p)) for path, score, p in columns if p >= threshold]
            done += len(some.strengths)
        report(on_progress, len(part))
    return sorted(found, key=lambda each: -each[1].probability)


class MessagePassing:
    """All paths decoded together; a path with several values is given as often.

    Iterating over it runs the rounds of message passing, and may stop early; `answers` are those of the best round.
    """

    def __init__(
        self,
        reader: Reader,
        asked: Paths,
        candidates: Iterable[Value] | None = None,
        prior_empty: float = 0.5,
        rounds: int = 100,
    ) -> None:
        check_sum(reader, "decode jointly")
        self.reader, self.asked = reader, asked
        self.rows, fillers = reader.held_candidates(candidates)
        self.times = Counter(asked.names)  # in the order of their first appearance, as distinct paths are
        ranks, own = shared_paths(reader, asked.distinct()[0], rounds)
        counts = reader.counts[list(self.rows)].clamp_min(0)
        self._decoding = Decoding(
            reader.scheme,
            reader.observed,
            reader.scheme.contexts(asked.distinct()[0][own]),
            fillers,
            rounds=rounds,
            ranks=ranks,
            holds=list(self.times.values())[own],
            prior=counts + UNSEEN_COUNT,
            shares=counts / max(reader.stored, 1.0),
            prior_empty=check_prior_empty(prior_empty),
            strengths=reader.strengths,
        )

    def __iter__(self) -> Iterator[Step]:
        return iter(self._decoding)

    def owners(self) -> Iterator[bytes]:
        """Iterate over the canonical path that each row of a step belongs to."""
        return (name for name, count in self.times.items() for _ in range(count))

    def answers(self) -> Answers:
        """Return one answer for each path that was given, in its order."""
        reader, decoded = self.reader, self._decoding.decoded()
        columns = (decoded.indices.tolist(), decoded.scores.tolist(), decoded.probabilities.tolist())
        answers = {name: list[Answer]() for name in self.times}
        for name, index, score, probability in zip(self.owners(), *columns, strict=True):
            value = None if index < 0 else reader.vocabulary[self.rows[index]]
            answers[name].append(Answer(value, score, min(probability, 1.0), found=index >= 0))
        ordered = {name: iter(sorted(each, key=lambda answer: not answer.found)) for name, each in answers.items()}
        # Where all that was stored was asked for, quantized cells show whether it was found.
        whole = reader.cells is None or len(self.asked) < reader.pairs or decoded.explained
        answered = (next(ordered[name]) for name in self.asked.names)
        return Answers(answered, decoded.converged and whole, decoded.rounds, self.asked)


# Checks


def index_target(reader: Reader, recall_target: float | None, all_values: bool) -> float | None:
    """Return the recall target of an index; None where all candidates are scored."""
    if recall_target is None and len(reader.vocabulary) < LARGE_VOCABULARY:
        return None
    can = reader.codebook.indexable and reader.calibration is None and reader.ranks.size == 1 and all_values
    if recall_target is None:
        return DEFAULT_TARGET if can else None
    if not 0 < check_number("recall_target", recall_target) <= 1:
        raise BadValue(
            f"recall_target={recall_target!r} must be above 0 and at most 1: the target recall relative to a full "
            "scan. The default is 0.999 for large vocabularies."
        )
    if recall_target == 1:
        return None
    if not can:
        raise BadValue(
            f"recall_target={recall_target} needs an index, which exists for the whole vocabulary of a memory with "
            "compact fillers, "
            "not trained, OSC(..., compact=True), on the CPU, not consolidated, in one process. Omit it to score all "
            "candidates."
        )
    return float(recall_target)


def check_sum(reader: Reader, what: str) -> None:
    """Refuse what only sums can do."""
    if reader.calibration is not None:
        raise BadValue(
            f"Cannot {what}: the memory was consolidated and is no longer the sum of its pairs. Store the pairs in a "
            "new memory: Memory.like(memory)."
        )


def check_threshold(threshold: float) -> None:
    """Refuse a threshold that is not a probability between 0 and 1."""
    if not 0 < check_number("threshold", threshold) < 1:
        raise BadValue(f"threshold must be a probability between 0 and 1, got {threshold!r}. The default is 0.5.")


def check_roles(path: Path) -> Path:
    """Return the path; refuse one that was passed whole, as a single role."""
    if len(path) == 1 and isinstance(path[0], tuple | list) and path[0]:
        roles = ", ".join(map(repr, path[0]))
        raise BadType(f"Pass a path role by role, recall({roles}), got the tuple recall({path[0]!r}).")
    return path


def check_paths(paths: Iterable[Path], reader: Reader) -> Paths:
    """Return checked paths to query a memory for; refuse an empty memory."""
    asked = [check_roles(as_path(path)) for path in listed(paths, "paths")]
    if not len(reader.vocabulary):
        raise BadValue(EMPTY)
    return Paths.of(asked)


def _collected(parts: Parts, on_progress: OnProgress | None) -> list[list[Answer]]:
    answers: list[list[Answer]] = []
    for part in parts:
        answers += part
        report(on_progress, len(part))
    return answers
