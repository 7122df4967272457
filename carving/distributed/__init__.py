"""Distributed work: ranks of `torch.distributed`, and the errors they raise."""

from carving.distributed.joining import joined
from carving.distributed.ranks import LostRank, RankFailed, Ranks

__all__ = ["LostRank", "RankFailed", "Ranks", "joined"]
