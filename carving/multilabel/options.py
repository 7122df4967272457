"""Options of label heads."""

from typing import TypedDict

import torch

from carving.schemes.moments import Basis


class Common(TypedDict, total=False):
    """Options of all heads."""

    missing: bool  # whether there is a role for missing labels, and its term of the loss
    absolute: bool  # whether scores are absolute
    trainable: bool  # whether codes are learned
    cached: bool  # whether what codes are made of is kept
    seed: int
    dtype: torch.dtype


class OSCOptions(Common, total=False):
    """Options of OSC heads."""

    dictionary: int | None  # labels share so many components of each mode (0: as few as can be); see `grid`
    levels: bool  # whether every label has components of its own that are drawn cheaply; see `levels`
    tanh: bool  # whether the published network ends with tanh
    basis: Basis  # of the roles' subspaces; blocks if nothing is said
