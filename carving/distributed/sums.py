"""Sums over ranks in a fixed order.

The order of additions in an all-reduce depends on the library and its version. Here every rank receives its part of
all tensors, adds the numbers in the order of ranks in float64, and sends the rounded sums to all ranks: two exchanges,
which move as many bytes as a ring all-reduce.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from carving.distributed.ranks import Ranks

PIECE = 2**22  # numbers that are summed at a time


def sum_in_order(ranks: "Ranks", tensor: Tensor) -> None:
    """Sum the tensors of all ranks, in place."""
    numbers = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    if not numbers.is_contiguous():
        whole = numbers.contiguous()
        _sum_flat(ranks, whole.view(-1))
        numbers.copy_(whole)
    else:
        _sum_flat(ranks, numbers.view(-1))


def _sum_flat(ranks: "Ranks", flat: Tensor) -> None:
    size = ranks.size
    own = min(PIECE, -(-len(flat) // size))  # numbers that each rank sums in a piece
    sent = torch.empty(size * own, dtype=flat.dtype, device=ranks.device)
    for start in range(0, len(flat), size * own):
        part = flat[start : start + size * own]
        sent[: len(part)] = part
        sent[len(part) :] = 0
        part.copy_(_summed(ranks, sent)[: len(part)])


def _summed(ranks: "Ranks", sent: Tensor) -> Tensor:
    from torch import distributed as dist

    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent, group=ranks.group)
    parts = received.view(ranks.size, -1)
    total = parts[0].double()
    for part in parts[1:]:
        total += part
    mine = total.to(sent.dtype)
    dist.all_gather(list(received.view(ranks.size, -1)), mine, group=ranks.group)
    return received
