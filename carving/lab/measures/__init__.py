"""What experiments measure."""

from carving.lab.measures.memories import accuracy

__all__ = ["accuracy"]
