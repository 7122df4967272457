"""Settings and quantities in words, for axes, legends and tables: "order 2", never p=2."""

from collections.abc import Sequence

from carving.lab.experiment import Setting

AXES = {  # what a key or a quantity is called where it stands alone
    "N": "pairs stored",
    "L": "words in the vocabulary",
    "d": "side of the memory",
    "k1": "dimensions of a context",
    "p": "order of the memory",
    "depth": "roles in a path",
    "shared": "leaves a path",
    "cells": "numbers in the memory",
    "cells a pair": "numbers in the memory, a pair",
    "bits a pair": "bits in the memory, a pair",
    "about": "bits in the memory, a pair",
    "bits": "bits a number",
    "numbers": "numbers, memory and codebook",
    "total": "numbers, memory and codebook",
    "footprint": "numbers in the memory",
    "retrieval": "questions answered rightly",
    "recognition": "stored filler beats a wrong one",
    "unbinding": "questions answered rightly",
    "alone": "questions answered rightly",
    "together": "questions answered rightly",
    "right": "questions answered rightly",
    "by addition": "questions answered rightly",
    "solved": "questions answered rightly",
    "simulated": "answered rightly, simulated",
    "predicted": "answered rightly, predicted",
    "decoded": "answered rightly, decoded together",
    "probability": "probability that answers carry",
    "share right": "share of them that is right",
    "relative": "variance, times the theorem’s",
    "variance": "variance of a score",
    "noise": "variance of a score",
    "gain": "difference of accuracy",
    "rounds": "rounds",
    "symbols": "symbols stored in each 500 numbers",
    "m": "vectors in each codebook",
    "share": "share of the published capacity",
    "same answer": "questions answered alike",
    "over the bound": "coherence, as a multiple of Welch’s bound",
    "error": "error",
}
FLAGS = {  # keys that are true or false: what either says
    "compact": ("compact fillers", ""),
    "joint": ("asked together", ""),
    "signed": ("signed contexts", "contexts without signs"),
    "up": ("context’s size rounded up", ""),
}
STRINGS = {"even": "words equally often", "uniform": "words equally often", "zipf": "some words oftener (Zipf)"}
NUMBERS = {  # keys that are numbers: how they are said beside others
    "N": "{:,} pairs",
    "L": "{:,} words",
    "d": "dimension {:,}",
    "p": "order {}",
    "k1": "contexts of {}",
    "depth": "depth {}",
    "bits": "{} bits",
    "shared": "{} leaves a path",
    "cells": "{:,} numbers",
    "numbers": "{:,} numbers",
    "cells a pair": "{} numbers a pair",
    "bits a pair": "{} bits a pair",
    "questions": "{:,} questions",
    "asked": "{:,} questions",
    "repeats": "{:,} repeats",
    "load": "load {}",
    "n": "dimension {}",
    "factors": "{} factors",
}

SINGLE = {"bits": "1 bit", "shared": "1 leaf a path", "N": "1 pair"}


def axis_words(key: str) -> str:
    """What an axis of this key or quantity is called.

    >>> axis_words("N")
    'pairs stored'
    """
    return AXES.get(key, key)


def setting_words(setting: Setting, keys: Sequence[str]) -> str:
    """These keys of a setting in words.

    >>> setting_words({"scheme": "OSC", "d": 200, "p": 2, "compact": True}, ("scheme", "d", "compact"))
    'OSC, 200 x 200, compact fillers'
    """
    size = "d" in keys and "d" in setting
    shown = [key for key in keys if setting.get(key) is not None and not (key == "p" and size)]
    said = [size_words(setting) if key == "d" else value_words(key, setting[key]) for key in shown]
    return ", ".join(word for word in said if word)


def value_words(key: str, value: object) -> str:
    """One value of a setting in words."""
    if isinstance(value, bool):
        yes, no = FLAGS.get(key, (key, f"not {key}"))
        return yes if value else no
    if isinstance(value, str):
        return STRINGS.get(value, value)
    if value == 1 and key in SINGLE:
        return SINGLE[key]
    if key == "spread":
        return f"loudness {value}" if value else ""
    return NUMBERS[key].format(value) if key in NUMBERS else f"{key} {value}"


def size_words(setting: Setting) -> str:
    """How large the memory is: what `d` means depends on the scheme."""
    d, p = setting["d"], setting.get("p", 2 if setting.get("scheme") == "TPR" else 1)
    if setting.get("scheme", "OSC").startswith("Clifford"):
        return f"blades of order {p} in {d} dimensions"
    return " x ".join([f"{d:,}"] * p) if 1 < p < 4 else f"{d:,} numbers" if p == 1 else f"side {d}, order {p}"


def cells_of(setting: Setting, d: float) -> float | None:
    """The numbers of a memory of dimension d, where the setting tells its scheme."""
    scheme = setting.get("scheme")
    if scheme is None or scheme.startswith("Clifford"):
        return None
    return d ** (setting.get("p", 1) if scheme == "OSC" else 2 if scheme == "TPR" else 1)
