"""Labels that a dictionary gives the same filler: how many there are, and how often one is taken for another."""

import math

from carving.errors import BadValue

LARGEST = 2**16


def twins(vocabulary: int, dictionary: int, p: int) -> float:
    """The pairs of labels that are expected to have one filler.

    >>> round(twins(10_000_000, 65_536, 2)), round(twins(10_000, 256, 3), 1)
    (11642, 3.0)
    """
    return vocabulary * (vocabulary - 1) / 2 / dictionary**p


def told_apart(vocabulary: int, dictionary: int, p: int) -> float:
    """The share of labels that are named where their filler is found, of those that have the same one by chance.

    Others have it as well in a number that is Poisson distributed, n of them with the probability e^-r r^n / n!: of
    n + 1 labels the right one is named once.

    >>> round(told_apart(10_000_000, 65_536, 2), 4), round(told_apart(10_000, 256, 2), 3)
    (0.9988, 0.927)
    """
    rate = (vocabulary - 1) / dictionary**p
    return -math.expm1(-rate) / rate if rate > 0 else 1.0


def check_told_apart(vocabulary: int, dictionary: int, p: int, accuracy: float) -> None:
    """Refuse a dictionary that is too small for any memory to reach the accuracy."""
    share = told_apart(vocabulary, dictionary, p)
    if share < accuracy:
        enough = math.ceil((vocabulary / (2 * (1 - accuracy))) ** (1 / p))
        way_out = f"Use dictionary={enough}." if enough <= LARGEST else "No dictionary is large enough: omit it."
        raise BadValue(
            f"A dictionary of {dictionary} vectors has {dictionary**p:,} fillers for p={p}: "
            f"{twins(vocabulary, dictionary, p):,.0f} pairs of the {vocabulary:,} values would share a filler, and the "
            f"accuracy would be at most {share:.4f}, below {accuracy}. {way_out}"
        )
