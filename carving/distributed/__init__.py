"""Distributed work: ranks of `torch.distributed`, and the errors they raise."""

from carving.distributed.ranks import LostRank, RankFailed, Ranks, process_group

__all__ = ["LostRank", "RankFailed", "Ranks", "process_group"]
