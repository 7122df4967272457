"""Symbolic memories of fixed size: Orthogonal Subspace Carving and the architectures around it."""

from carving.cache import ContextCache
from carving.memory import Answer, Memory
from carving.osc import OSC
from carving.planner import plan
from carving.recall import Best, top
from carving.scheme import Contexts, Scheme
from carving.schemes import SCHEMES, make
from carving.tpr import TPR
from carving.vocabulary import Vocabulary
from carving.vsa import VSA

__version__ = "0.1.0"

__all__ = [
    "OSC",
    "SCHEMES",
    "TPR",
    "VSA",
    "Answer",
    "Best",
    "ContextCache",
    "Contexts",
    "Memory",
    "Scheme",
    "Vocabulary",
    "make",
    "plan",
    "top",
]
