"""Geometric algebra of large spaces, one grade at a time.

The Clifford forms of OSC and TPR that build on it are `carving.schemes.CliffordOSC` and `carving.schemes.CliffordTPR`.
"""

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

__all__ = [
    "Blades",
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
