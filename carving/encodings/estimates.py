"""Estimates of numbers from the answers of a memory: posterior means over levels."""

import cmath
import math
from collections.abc import Sequence

from carving.errors import BadType, BadValue
from carving.inference.answer import Answer
from carving.validate import check_number


def estimate(answers: Answer | Sequence[Answer], period: float | None = None) -> float:
    """Return the mean of numeric answers, weighted by their probabilities; NaN if nothing was found.

    Args:
        answers: One answer, or the best answers of a query: `memory.recall(..., top=5)`.
        period: Take the circular mean with this period, such as 24 for hours.

    Raises:
        TypeError: An answer is not a number.
        ValueError: Answers have no probabilities, or the period is not positive.

    >>> estimate([Answer(0.4, 0.9, 0.6), Answer(0.5, 0.8, 0.3)])
    0.433...
    >>> estimate([Answer(23, 0.9, 0.5), Answer(1, 0.9, 0.5)], period=24)
    0.0
    """
    if period is not None and not 0 < check_number("period", period) < math.inf:
        raise BadValue(f"period must be a positive number, got {period!r}. For hours it is 24.")
    every = [answers] if isinstance(answers, Answer) else answers
    found = [(answer.probability, _number(answer)) for answer in every if answer.found]
    total = sum(probability for probability, _ in found)
    if not total:
        return math.nan
    if period is None:
        return sum(probability * number for probability, number in found) / total
    turn = 2 * math.pi / period
    points = sum(probability * cmath.exp(1j * turn * number) for probability, number in found)
    return round(cmath.phase(points) / turn, 12) % period


def _number(answer: Answer) -> float:
    """Return the number that is answered; refuse other answers."""
    value = answer.value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadType(f"answers must be numbers, got {value!r}. Query a memory whose values are levels.")
    if math.isnan(answer.probability):
        raise BadValue("answers must have probabilities. Use a linear scheme such as OSC.")
    return float(value)
