"""The smallest dimension that reaches an accuracy."""

from collections.abc import Callable

from carving.lab.experiment import Measured, Setting
from carving.lab.measures.retrieval import accuracy
from carving.lab.measures.schemes import scheme_of, seed_within, total_numbers

GOAL = 0.99


def minimum_dimension(setting: Setting, seed: int) -> Measured:
    """Find the smallest d whose mean accuracy over `repeats` memories exceeds 99 %, unlike the next smaller d.

    >>> minimum_dimension({"scheme": "TPR", "N": 10, "repeats": 5}, seed=0)["d"] < 40
    True
    """

    def enough(step: int) -> bool:
        d, missed = dimension(setting["scheme"], step), 0.0
        for repeat in range(setting["repeats"]):
            missed += 1 - accuracy({**setting, "d": d}, seed_within(seed, d, repeat))["retrieval"]
            if missed >= (1 - GOAL) * setting["repeats"]:  # whatever the other memories do
                return False
        return True

    d = dimension(setting["scheme"], first_step(enough, *bounds(setting)))
    return {"d": float(d), "numbers": float(total_numbers(scheme_of({**setting, "d": d}, 0), setting))}


def dimension(scheme: str, step: int) -> int:
    """The dimension of a step; complex architectures have pairs of numbers, segments four indices at least."""
    match scheme:
        case "VTB":
            return step * step
        case "GHRR":
            return 8 * step
        case "FHRR" | "CGR":
            return 2 * step
        case "BSDC-SEG":
            return max(step, 4)
    return step


def bounds(setting: Setting) -> tuple[int, int]:
    """A step that is not enough, and one at which to begin."""
    low = setting.get("k1", 1)  # no scheme is that small
    high = max(4, low + 1)
    if not setting.get("joint"):
        return low, high
    # What cannot be decoded takes the most rounds: from one cell a pair to eight, at first.
    least, most = (
        max(size, round((cells * setting["N"]) ** (1 / setting["p"]))) for size, cells in ((low, 1), (high, 8))
    )
    return least, most


def first_step(enough: Callable[[int], bool], low: int, high: int) -> int:
    """The first step that is enough, above `low`: the upper bound is doubled until it is, then the gap is halved."""
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
