"""Answers of a memory."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from carving.symbols.codec import Path, Value


@dataclass(frozen=True)
class Answer:
    """The answer to a query: a value, its score and its probability. True in a condition if a value was found.

    Attributes:
        value: The value; None if nothing was found.
        score: The estimated strength of the pair: about 1 if it was stored once, about 0 if it was not stored.
        probability: The posterior probability that the value is stored under the path or, if nothing was found, that
            the path is empty. Not-a-number for schemes that are not linear (`scheme.facts.linear`). Probabilities of
            HRR are overconfident where paths share roles; use `unitary=True`.
        found: Whether a value was found.

    >>> Answer("dog", 1.02, 0.99)
    Answer(value='dog', score=1.02, probability=0.99)
    >>> Answer(None, 0.1, 0.97, found=False)
    Answer(value=None, score=0.1, probability=0.97, found=False)
    """

    value: Value
    score: float
    probability: float
    found: bool = True

    def __bool__(self) -> bool:
        return self.found

    def __repr__(self) -> str:
        missing = "" if self.found else ", found=False"
        return f"Answer(value={self.value!r}, score={self.score!r}, probability={self.probability!r}{missing})"

    def plot(self) -> Any:
        """Return a matplotlib figure of the score and the probability; needs the extra `plots`.

        `memory.plot(*path)` also shows the scores of all other values.

        >>> Answer("dog", 1.02, 0.99).plot().axes[0].get_title(loc="left")
        'dog, with a probability of 0.99'
        """
        from carving.explore.display import plot_answer

        return plot_answer(self)

    def _repr_html_(self) -> str:
        from carving.explore.display import answer_html

        return answer_html(self)


class Answers(list[Answer]):
    """The answers of joint decoding, as a list.

    Attributes:
        paths: The path of each answer.
        converged: Whether decoding converged; if not, the answers are not reliable.
        rounds: The number of rounds, each of which reads the memory once.
    """

    def __init__(self, answers: Iterable[Answer], converged: bool, rounds: int, paths: tuple[Path, ...] = ()) -> None:
        super().__init__(answers)
        self.paths = paths
        self.converged = converged
        self.rounds = rounds
