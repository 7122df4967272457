"""The target that a memory was planned for; it is stored with the memory, which warns when it is over capacity."""

from dataclasses import dataclass

from carving.errors import BadType, BadValue
from carving.validate import check_integer, check_number

USUAL = 0.9  # the target accuracy of a memory without a goal
TOLERANCE = 0.1  # relative excess of errors that is tolerated: predictions are no more precise


@dataclass(frozen=True)
class Target:
    """The target accuracy of a memory, with the numbers of pairs and of distinct values that it was planned for.

    Attributes:
        accuracy: The target accuracy, between 0 and 1.
        pairs: The planned number of pairs; 0 if unknown.
        vocabulary: The planned number of distinct values; 0 if unknown.
        joint: Whether the target is for joint decoding.

    >>> target = Target(accuracy=0.99, pairs=1000, vocabulary=500)
    >>> target.missed_by(0.9895), target.missed_by(0.98)
    (False, True)
    """

    accuracy: float
    pairs: int = 0
    vocabulary: int = 0
    joint: bool = False

    def __post_init__(self) -> None:
        if not 0 < check_number("accuracy", self.accuracy) < 1:
            raise BadValue(f"accuracy must be between 0 and 1, got {self.accuracy}. A typical value is 0.99.")
        check_integer("pairs", self.pairs, 0)
        check_integer("vocabulary", self.vocabulary, 0)
        if not isinstance(self.joint, bool):
            raise BadType(f"joint must be True or False, got {self.joint!r}")

    def missed_by(self, accuracy: float) -> bool:
        """Return whether a memory of this predicted accuracy misses the target by more than the tolerance."""
        return 1 - accuracy > (1 - self.accuracy) * (1 + TOLERANCE)
