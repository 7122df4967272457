"""The question the other way round: which of many paths hold a value."""

import math
from collections.abc import Iterable, Iterator, Sized
from itertools import islice

from carving.errors import BadValue
from carving.inference.answer import Answer
from carving.memory.changes import OnProgress, report
from carving.memory.pairs import BATCH, Batch
from carving.memory.recognition import weighed
from carving.memory.state import State
from carving.symbols.codec import Path, Value
from carving.validate import check_prior_empty

Found = tuple[Path, Answer]


def where(
    held: State,
    value: Value,
    paths: Iterable[Path],
    threshold: float = 0.5,
    prior_empty: float | None = None,
    on_progress: OnProgress | None = None,
) -> list[Found]:
    """The paths that hold a value with at least this probability, the most probable first; some are asked at a time."""
    if not 0 < threshold < 1:
        raise BadValue(f"threshold must be a probability between 0 and 1, got {threshold!r}. The default is 0.5.")
    if not held.scheme.facts.linear:
        raise BadValue(
            f"where() needs probabilities, which {held.scheme} does not have, because its memory is not a plain sum. "
            'Use another scheme, or memory="raw".'
        )
    row = held.vocabulary.find(value)
    if row is None:  # what was never stored is nowhere
        return []
    asked = paths if isinstance(paths, Sized) else list(paths)
    if prior_empty is None:
        prior_empty = 1 - min(0.5, max(1.0, float(held.counts[row])) / max(1, len(asked)))
    found: list[Found] = []
    for batch in _batches(asked, value):
        found += _found(held, batch, threshold, check_prior_empty(prior_empty))
        report(on_progress, len(batch))
    return sorted(found, key=lambda each: -each[1].probability)


def _batches(paths: Iterable[Path], value: Value) -> Iterator[Batch]:
    each = iter(paths)
    while part := list(islice(each, BATCH)):
        yield Batch([(path, value) for path in part])


def _found(held: State, batch: Batch, threshold: float, prior_empty: float) -> Iterator[Found]:
    done = 0
    for part in weighed(held, batch, prior_empty):
        chances = part.chances.tolist()
        for place, (score, chance) in enumerate(zip(part.strengths.tolist(), chances, strict=True), start=done):
            if chance >= threshold and not math.isnan(chance):
                yield batch.paths[place], Answer(batch.values[place], score, chance)
        done += len(chances)
