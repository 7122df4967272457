"""Symbolic memories of fixed size: Orthogonal Subspace Carving and the architectures around it."""

from carving.cache import ContextCache
from carving.osc import OSC
from carving.recall import Best, top
from carving.scheme import Contexts, Scheme
from carving.schemes import SCHEMES, make
from carving.tpr import TPR
from carving.vocabulary import Vocabulary
from carving.vsa import VSA

__version__ = "0.1.0"

__all__ = ["OSC", "SCHEMES", "TPR", "VSA", "Best", "ContextCache", "Contexts", "Scheme", "Vocabulary", "make", "top"]
