"""What a memory answers."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from carving.answers.picture import picture
from carving.notebooks import table
from carving.symbols import Leaf, Path


@dataclass(frozen=True)
class Answer:
    """A leaf with how strongly the memory holds it (1 if stored once) and how probably it was stored there.

    Where nothing is stored, `found` is False, the leaf None and the probability that of nothing being there. Schemes
    that are not linear (`scheme.facts.linear`) have no probabilities: not-a-number then. Those of HRR are too sure
    where paths share roles; `unitary=True` mends it.

    >>> Answer("dog", 1.02, 0.99)
    Answer(leaf='dog', score=1.02, probability=0.99)
    >>> Answer(None, 0.1, 0.97, found=False)
    Answer(leaf=None, score=0.1, probability=0.97, found=False)
    """

    leaf: Leaf
    score: float
    probability: float
    found: bool = True

    def __bool__(self) -> bool:
        return self.found

    def __repr__(self) -> str:
        missing = "" if self.found else ", found=False"
        return f"Answer(leaf={self.leaf!r}, score={self.score!r}, probability={self.probability!r}{missing})"

    def plot(self) -> Any:
        """A matplotlib figure: the score between nothing and stored once, and how probable it is (extra `plots`).

        `memory.plot(*path)` shows the scores of all other leaves beside it.

        >>> Answer("dog", 1.02, 0.99).plot().axes[0].get_title(loc="left")
        'dog, with a probability of 0.99'
        """
        return picture(str(self.leaf), self.score, self.probability, self.found)

    def _repr_html_(self) -> str:
        leaf = str(self.leaf) if self.found or self.leaf is not None else "nothing is stored there"
        sure = [] if math.isnan(self.probability) else [("probability", f"{self.probability:.2%}")]
        return table("Answer", [("value", leaf), *sure, ("score", f"{self.score:.3f}")])


class Answers(list[Answer]):
    """Answers that were found together, to which paths, and whether they came to rest with hardly a doubt left."""

    def __init__(self, answers: Iterable[Answer], converged: bool, rounds: int, paths: tuple[Path, ...] = ()) -> None:
        super().__init__(answers)
        self.paths = paths  # one for each answer
        self.converged = converged
        self.rounds = rounds  # how often the memory was read
