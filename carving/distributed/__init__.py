"""Distributed work: ranks of `torch.distributed`, and the errors they raise."""

from carving.distributed.joining import process_group
from carving.distributed.ranks import LostRank, RankFailed, Ranks

__all__ = ["LostRank", "RankFailed", "Ranks", "process_group"]
