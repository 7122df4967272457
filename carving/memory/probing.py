"""Questions to many candidates: which are asked by an index, and how."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from carving.distributed.ranks import Group
from carving.errors import BadValue
from carving.index.asked import Asked, ranked_by
from carving.inference import several
from carving.inference.answer import Answer
from carving.inference.likelihood import Likelihood
from carving.memory.state import State
from carving.memory.wording import answers, top_answers
from carving.symbols.paths import Paths
from carving.validate import check_number

USUAL = 0.999  # of a scan's right answers, where nothing else is wished
RARE = 0.01  # of the paths hold several values, and the best of them may come second
LARGE = 200_000  # values of which an index is faster than a scan for one question and for many


def wished(held: State, recall_target: float | None, all_values: bool, group: Group) -> float | None:
    """The part of a scan's right answers that is wished of an index; None for a scan itself, which ranks share."""
    if recall_target is None and held.often.size < LARGE:
        return None
    can = held.codebook.indexable and held.solved is None and group is None and all_values
    if recall_target is None:
        return USUAL if can else None
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


def check_indexable(held: State, bits: int | str | None) -> None:
    """Refuse to write an index where there can be none."""
    if not held.codebook.indexable or bits is not None:
        raise BadValue(
            "index=True requires a memory with compact fillers, not trained, OSC(..., compact=True), and not "
            "quantized. Omit it."
        )


def probed(held: State, paths: Paths, prior_empty: float, wish: float, top: int | None) -> Iterator[list[list[Answer]]]:
    """The answers of an index, some paths at a time: the best to each, or so many."""
    scheme = held.scheme

    def odds_of(rows: NDArray[np.int64]) -> Likelihood:
        return held.odds_of(scheme, prior_empty, rows)

    single, rows = top is None and held.sample.further()[0] <= RARE, range(len(held.vocabulary))
    asked = Asked(scheme, held.codebook.index(), held.vocabulary, odds_of, prior_empty, wish, held.prior_range, single)
    k = 1 if top is None else several.listed(top, len(rows))
    for _, contexts in scheme.chunks_of(paths, held.batch):
        ranking = ranked_by(asked, held.tensor, contexts, k)
        if top is None:
            yield answers(held, ranking, rows, prior_empty)
        else:
            yield top_answers(
                held, contexts, ranking, rows, lambda listed: odds_of(listed.numpy()), min(top, len(rows))
            )
