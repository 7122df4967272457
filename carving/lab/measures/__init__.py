"""What experiments measure."""

from carving.lab.measures.retrieval import accuracy

__all__ = ["accuracy"]
