"""Many processes at one memory: ranks of `torch.distributed`, what they agree on, and how they are started."""

from carving.distributed.joining import joined
from carving.distributed.ranks import LostRank, RankFailed, Ranks

__all__ = ["LostRank", "RankFailed", "Ranks", "joined"]
