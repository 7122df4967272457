"""A goal: what a memory was planned for, kept with it, so that it can tell when it is fuller than that."""

from dataclasses import dataclass

from carving.checks import check_integer, check_number
from carving.errors import BadType, BadValue

USUAL = 0.9  # the share of leaves to be named that a memory without a goal is expected to reach
TOLERANCE = 0.1  # so many more errors than planned, as a fraction, are let pass: predictions are no better


@dataclass(frozen=True)
class Goal:
    """The share of leaves that a memory is to name, and with how many pairs and different leaves.

    >>> goal = Goal(accuracy=0.99, pairs=1000, vocabulary=500)
    >>> goal.missed_by(0.9895), goal.missed_by(0.98)
    (False, True)
    """

    accuracy: float
    pairs: int = 0
    vocabulary: int = 0
    joint: bool = False  # whether all paths are to be asked together

    def __post_init__(self) -> None:
        if not 0 < check_number("accuracy", self.accuracy) < 1:
            raise BadValue(f"accuracy must be between 0 and 1, got {self.accuracy}. A typical value is 0.99.")
        check_integer("pairs", self.pairs, 0)
        check_integer("vocabulary", self.vocabulary, 0)
        if not isinstance(self.joint, bool):
            raise BadType(f"joint must be True or False, got {self.joint!r}")

    def missed_by(self, accuracy: float) -> bool:
        """Whether so accurate a memory falls short of it."""
        return 1 - accuracy > (1 - self.accuracy) * (1 + TOLERANCE)
