"""Descriptions of schemes in words."""

from carving.schemes.base import Scheme

NAMES = {
    "OSC": "Orthogonal Subspace Carving",
    "CliffordOSC": "Orthogonal Subspace Carving with Clifford algebra",
    "TPR": "a tensor product representation",
    "HLB": "Hadamard linear binding",
    "HRR": "holographic reduced representations",
    "FHRR": "holographic reduced representations of phases",
    "VTB": "vector-derived binding",
    "MBAT": "matrix binding of additive terms",
    "MAP-I": "multiply, add, permute with integers",
    "MAP-B": "multiply, add, permute with signs",
    "MAP-C": "multiply, add, permute with real numbers",
    "BSC": "binary spatter codes",
    "CGR": "cyclic group representations",
    "BSDC-S": "sparse binary codes, shifted",
    "BSDC-SEG": "sparse binary codes in segments",
    "BSDC-THIN": "sparse binary codes, thinned",
    "BSDC-CDT": "sparse binary codes, thinned by context",
}
SHAPES = {1: "a row", 2: "a square", 3: "a cube", 4: "a block of four axes"}


def words_of(scheme: Scheme) -> str:
    """Return a description of a scheme and the size of its memories.

    >>> from carving import OSC
    >>> words_of(OSC(d=40, p=3, compact=True))
    'OSC (Orthogonal Subspace Carving): a cube of 40 x 40 x 40 = 64,000 cells, with compact fillers'
    """
    shape, numbers = scheme.memory_shape, f"{scheme.facts.memory_scalars:,} cells"
    sides = " x ".join(f"{side:,}" for side in shape)
    whole = f"{SHAPES.get(len(shape), 'a block')} of {sides} = {numbers}" if len(shape) > 1 else f"a row of {numbers}"
    compact = ", with compact fillers" if scheme.parameters.get("compact") else ""
    name = f"{scheme.name} ({NAMES[scheme.name]})" if scheme.name in NAMES else scheme.name
    return f"{name}: {whole}{compact}"
