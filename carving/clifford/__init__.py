"""Geometric algebra of large spaces, one grade at a time, and the Clifford forms of TPR and OSC built on it."""

from carving.clifford.blades import (
    contract,
    contract_sum,
    expand,
    factor,
    inner,
    inverse,
    norm,
    project,
    reject,
    reverse,
    total,
    wedge,
)
from carving.clifford.elements import Blades, Multivectors
from carving.clifford.osc import CliffordOSC
from carving.clifford.tpr import CliffordTPR

__all__ = [
    "Blades",
    "CliffordOSC",
    "CliffordTPR",
    "Multivectors",
    "contract",
    "contract_sum",
    "expand",
    "factor",
    "inner",
    "inverse",
    "norm",
    "project",
    "reject",
    "reverse",
    "total",
    "wedge",
]
