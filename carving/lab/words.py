"""Names of settings and quantities for axes, legends and tables: "order 2", never p=2."""

from collections.abc import Sequence

from carving.lab.experiment import Setting

AXES = {  # names of axes
    "N": "pairs stored",
    "L": "values in the vocabulary",
    "d": "side of the memory",
    "k1": "dimensions of a context",
    "p": "order of the memory",
    "depth": "roles in a path",
    "shared": "values per path",
    "cells": "cells of the memory",
    "cells a pair": "cells per pair",
    "bits a pair": "bits per pair",
    "about": "bits per pair",
    "bits": "bits per cell",
    "numbers": "numbers of memory and codebook",
    "total": "numbers of memory and codebook",
    "footprint": "numbers of the memory",
    "retrieval": "queries answered correctly",
    "recognition": "stored filler beats a wrong one",
    "unbinding": "queries answered correctly",
    "alone": "queries answered correctly",
    "together": "queries answered correctly",
    "right": "queries answered correctly",
    "by addition": "queries answered correctly",
    "solved": "queries answered correctly",
    "simulated": "answered correctly, simulated",
    "predicted": "answered correctly, predicted",
    "decoded": "answered correctly, joint decoding",
    "probability": "predicted probability",
    "share right": "share of correct answers",
    "relative": "variance, relative to the theorem",
    "variance": "variance of a score",
    "noise": "variance of a score",
    "gain": "difference of accuracy",
    "rounds": "rounds",
    "symbols": "symbols stored per 500 numbers",
    "m": "vectors in each codebook",
    "share": "share of the published capacity",
    "same answer": "queries with equal answers",
    "over the bound": "coherence, as a multiple of Welch’s bound",
    "error": "error",
}
FLAGS = {  # names of keys that are true or false
    "compact": ("compact fillers", ""),
    "joint": ("joint decoding", ""),
    "signed": ("signed contexts", "contexts without signs"),
    "up": ("context’s size rounded up", ""),
}
STRINGS = {"even": "uniform values", "uniform": "uniform values", "zipf": "values by Zipf’s law"}
NUMBERS = {  # formats of keys that are numbers
    "N": "{:,} pairs",
    "L": "{:,} values",
    "d": "dimension {:,}",
    "p": "order {}",
    "k1": "contexts of {}",
    "depth": "depth {}",
    "bits": "{} bits",
    "shared": "{} values per path",
    "cells": "{:,} numbers",
    "numbers": "{:,} numbers",
    "cells a pair": "{} cells per pair",
    "bits a pair": "{} bits per pair",
    "questions": "{:,} queries",
    "asked": "{:,} queries",
    "repeats": "{:,} repeats",
    "load": "load {}",
    "n": "dimension {}",
    "factors": "{} factors",
}

SINGLE = {"bits": "1 bit", "shared": "1 value per path", "N": "1 pair"}


def axis_words(key: str) -> str:
    """Return the name of an axis for a key or quantity.

    >>> axis_words("N")
    'pairs stored'
    """
    return AXES.get(key, key)


def setting_words(setting: Setting, keys: Sequence[str]) -> str:
    """Return the given keys of a setting in words.

    >>> setting_words({"scheme": "OSC", "d": 200, "p": 2, "compact": True}, ("scheme", "d", "compact"))
    'OSC, 200 x 200, compact fillers'
    """
    size = "d" in keys and "d" in setting
    shown = [key for key in keys if setting.get(key) is not None and not (key == "p" and size)]
    said = [size_words(setting) if key == "d" else value_words(key, setting[key]) for key in shown]
    return ", ".join(word for word in said if word)


def value_words(key: str, value: object) -> str:
    """Return one value of a setting in words."""
    if isinstance(value, bool):
        yes, no = FLAGS.get(key, (key, f"not {key}"))
        return yes if value else no
    if isinstance(value, str):
        return STRINGS.get(value, value)
    if value == 1 and key in SINGLE:
        return SINGLE[key]
    if key == "spread":
        return f"spread {value}" if value else ""
    return NUMBERS[key].format(value) if key in NUMBERS else f"{key} {value}"


def size_words(setting: Setting) -> str:
    """Return the size of a memory in words: the meaning of `d` depends on the scheme."""
    d, p = setting["d"], setting.get("p", 2 if setting.get("scheme") == "TPR" else 1)
    if setting.get("scheme", "OSC").startswith("Clifford"):
        return f"blades of order {p} in {d} dimensions"
    return " x ".join([f"{d:,}"] * p) if 1 < p < 4 else f"{d:,} numbers" if p == 1 else f"side {d}, order {p}"


def cells_of(setting: Setting, d: float) -> float | None:
    """Return the numbers of a memory of dimension d; None if the setting has no scheme."""
    scheme = setting.get("scheme")
    if scheme is None or scheme.startswith("Clifford"):
        return None
    return d ** (setting.get("p", 1) if scheme == "OSC" else 2 if scheme == "TPR" else 1)
