"""Symbolic memories of fixed size: Orthogonal Subspace Carving and the architectures around it."""

from carving.inference.answer import Answer
from carving.inference.top_k import Best, top
from carving.memory import Memory
from carving.memory.opened import open_memory as _open_memory
from carving.memory.quantized import QuantizedMemory
from carving.planner.plan import plan
from carving.schemes import SCHEMES, make, register
from carving.schemes.base import Contexts, Scheme
from carving.schemes.osc import OSC
from carving.schemes.tpr import TPR
from carving.schemes.vsa import VSA
from carving.symbols.vocabulary import Vocabulary

__version__ = "0.1.0"

open = _open_memory  # not in `__all__`: `from carving import *` must not shadow a builtin

__all__ = [
    "OSC",
    "SCHEMES",
    "TPR",
    "VSA",
    "Answer",
    "Best",
    "Contexts",
    "Memory",
    "QuantizedMemory",
    "Scheme",
    "Vocabulary",
    "make",
    "plan",
    "register",
    "top",
]
