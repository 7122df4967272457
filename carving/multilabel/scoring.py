"""The best labels without the scores of all: chunk by chunk, equal to sorting them all."""

from collections.abc import Callable

import torch
from torch import Tensor

from carving.errors import BadValue
from carving.inference.top_k import Best, best_of
from carving.tiling import slices
from carving.validate import check_integer

WORKSPACE = 64 * 2**20  # bytes for the codes and scores of a chunk
AT_ONCE = 1024  # points
DRAWN = 2**19  # numbers of codes that are drawn at a time: they stay in the cache until they are multiplied


def top(
    cores: Tensor,
    scores: Callable[[Tensor, slice], Tensor],
    count: int,
    k: int,
    numbers: int,
    workspace: int | None = None,
) -> Best:
    """Scores and numbers (n, k) of the best of `count` labels, best first; of equal ones the smaller number first.

    `scores(cores, labels)` gives the scores of a slice of labels, which take `numbers` numbers each beside their
    scores.
    """
    k = check_integer("k", k, 1, count, f"There are {count} labels.")
    if not len(cores):
        return Best(cores.new_zeros(0, k), torch.zeros(0, k, dtype=torch.int64, device=cores.device))
    workspace = WORKSPACE if workspace is None else workspace

    def top_of(points: Tensor) -> Best:
        size = max(k, workspace // (points.element_size() * (2 * numbers + 2 * len(points))))
        best: Best | None = None
        for labels in slices(count, size):
            scored = scores(points, labels)
            chunk = best_of(scored, min(k, scored.shape[1]))
            chunk = Best(chunk.scores, chunk.indices + labels.start)
            best = chunk if best is None else _merged(best, chunk, k)
        assert best is not None  # there is at least one label
        return best

    parts = [top_of(cores[points]) for points in slices(len(cores), AT_ONCE)]
    best = Best(torch.cat([part.scores for part in parts]), torch.cat([part.indices for part in parts]))
    check_finite(best.scores)
    return best


def filling(
    draw: Callable[[slice, Tensor], None], bias: Tensor | None = None, absolute: bool = False
) -> Callable[[Tensor, slice], Tensor]:
    """What gives `top` its scores where codes are drawn: `draw` puts those of some labels into rows of a tensor.

    They are few at a time, and both codes and scores are put where others were: memory that is asked for anew for every
    chunk would take as long as drawing does.
    """
    rooms: list[Tensor] = []

    def scores(cores: Tensor, labels: slice) -> Tensor:
        count = labels.stop - labels.start
        size = min(count, max(1, DRAWN // cores.shape[1]))
        if not rooms or len(rooms[0]) != len(cores) or rooms[0].shape[1] < count:
            rooms[:] = cores.new_empty(len(cores), count), cores.new_empty(size, cores.shape[1])
        room, drawn = rooms[0][:, :count], rooms[1]
        for part in slices(count, size):
            codes = drawn[: part.stop - part.start]
            draw(slice(labels.start + part.start, labels.start + part.stop), codes)
            torch.mm(cores, codes.mT, out=room[:, part])
        room = room.abs_() if absolute else room
        return room if bias is None else room.add_(bias[labels])

    return scores


def check_finite(scores: Tensor) -> None:
    """Refuse best scores (n, k) that are none: not-a-number and infinity come first wherever they are."""
    if not bool(torch.isfinite(scores).all()):
        row = int((~torch.isfinite(scores)).any(1).nonzero()[0])
        raise BadValue(
            f"Scores must be finite, got NaN or infinity for point {row}: the network's outputs have diverged. "
            "Lower the learning rate."
        )


def _merged(first: Best, second: Best, k: int) -> Best:
    """Return the k best of two, of which all indices of the first precede those of the second."""
    scores, indices = (torch.cat(each, dim=1) for each in zip(first, second, strict=True))
    best = best_of(scores, k)
    return Best(best.scores, indices.gather(1, best.indices))
