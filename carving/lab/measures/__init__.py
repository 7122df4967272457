"""What experiments measure, each a function of a setting and a seed that gives numbers by name."""

from carving.lab.measures.dimensions import minimum_dimension
from carving.lab.measures.noise import interference
from carving.lab.measures.retrieval import accuracy, two_ways
from carving.lab.measures.similarity import bound_similarity

__all__ = ["accuracy", "bound_similarity", "interference", "minimum_dimension", "two_ways"]
