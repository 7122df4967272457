"""The best labels without the scores of all: chunk by chunk, equal to sorting them all."""

from collections.abc import Callable

import torch
from torch import Tensor

from carving.checks import check_integer
from carving.chunks import slices
from carving.errors import BadValue

WORKSPACE = 64 * 2**20  # bytes for the codes and scores of a chunk
AT_ONCE = 1024  # points


def top(
    cores: Tensor,
    scores: Callable[[Tensor, slice], Tensor],
    count: int,
    k: int,
    numbers: int,
    workspace: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Scores and numbers (n, k) of the best of `count` labels, best first; of equal ones the smaller number first.

    `scores(cores, part)` gives the scores of some labels, which take `numbers` numbers each beside their scores.
    """
    workspace = WORKSPACE if workspace is None else workspace
    check_integer("k", k, 1, count, f"there are {count} labels")
    found = [_top(cores[rows], scores, count, k, numbers, workspace) for rows in slices(len(cores), AT_ONCE)]
    if not found:
        return cores.new_zeros(0, k), torch.zeros(0, k, dtype=torch.int64, device=cores.device)
    return torch.cat([values for values, _ in found]), torch.cat([ids for _, ids in found])


def _top(
    cores: Tensor, scores: Callable[[Tensor, slice], Tensor], count: int, k: int, numbers: int, workspace: int
) -> tuple[Tensor, Tensor]:
    size = max(k, workspace // (cores.element_size() * (2 * numbers + 2 * len(cores))))
    best, which = cores.new_zeros(len(cores), 0), torch.zeros(len(cores), 0, dtype=torch.int64, device=cores.device)
    for part in slices(count, size):
        values, ids = best_of(scores(cores, part), min(k, part.stop - part.start))
        # Earlier labels come first, so that a stable sort keeps the smaller numbers ahead.
        best, which = torch.cat([best, values], 1), torch.cat([which, ids + part.start], 1)
        best, order = best.sort(dim=1, descending=True, stable=True)
        best, which = best[:, :k], which.gather(1, order)[:, :k]
    return best, which


def best_of(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best of each row, best first, of equal ones the first: `topk` promises no order among equal scores."""
    values, ids = scores.topk(min(k + 1, scores.shape[1]), dim=1)  # one more tells ties, without another scan
    if not bool(torch.isfinite(values).all()):  # not-a-number and infinity come first
        row = int((~torch.isfinite(values)).any(1).nonzero()[0])
        raise BadValue(
            f"scores must be finite numbers, got not-a-number or infinity for point {row}; "
            "the network's outputs have grown too large: lower the learning rate"
        )
    tied = values[:, -1] == values[:, k - 1] if values.shape[1] > k else values.new_zeros(len(values), dtype=torch.bool)
    ids, order = ids[:, :k].sort(dim=1)
    values, order = values[:, :k].gather(1, order).sort(dim=1, descending=True, stable=True)
    ids = ids.gather(1, order)
    if bool(tied.any()):  # which of the equal ones came in is chance: sort these rows whole
        again, where = scores[tied].sort(dim=1, descending=True, stable=True)
        values[tied], ids[tied] = again[:, :k], where[:, :k]
    return values, ids
