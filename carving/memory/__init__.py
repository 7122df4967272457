"""Memories: storing pairs, recalling values, joint decoding, capacity and files."""

from carving.memory.memory import Memory
from carving.memory.slabs import RowShardedMemory

__all__ = ["Memory", "RowShardedMemory"]
