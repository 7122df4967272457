"""Memory: symbols in, symbols out; what goes in, what is asked, and how large it must be."""

from carving.memory.memory import Memory
from carving.memory.slabs import Slabs

__all__ = ["Memory", "Slabs"]
