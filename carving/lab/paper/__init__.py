"""The tables and figures of the paper, one file each."""

NAMES = (
    "interference",
    "tpr",
    "capacity-4096",
    "capacity-8100",
    "capacity-8100-depth48",
    "depth",
    "superposition-p2",
    "superposition-p3",
    "codebook-size",
    "recognition-vs-unbinding",
    "similarity",
    "carving-dimension",
    "triangle",
    "clifford",
    "flops",
    "speed",
    "multi-label",
)
