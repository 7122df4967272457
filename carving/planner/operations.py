"""What a question takes: operations, counted, and by how much some take longer than others.

A question draws its context from a label, reads the memory there and matches the core with every candidate. It is one
of many: what all share, such as the codes of compact fillers, is made once.
"""

from typing import NamedTuple

from carving.schemes.moments import Basis

# Measured, in one thread, in operations of a large matrix product:
SCATTERED = 10  # an operation on numbers that lie apart, or that are only passed through
DRAWN = 2_000  # a number that a label gives: hashed, made normal and orthogonal, or dealt into blocks


class Work(NamedTuple):
    """Multiplications and additions, by where they are done, and the random numbers that labels give."""

    products: int  # in matrix products
    scattered: int = 0  # elsewhere
    drawn: int = 0

    @property
    def operations(self) -> int:
        """All of it, in operations of a matrix product that take as long."""
        return self.products + SCATTERED * self.scattered + DRAWN * self.drawn

    def times(self, number: int) -> "Work":
        """The same so many times, with the same random numbers."""
        return Work(number * self.products, number * self.scattered, self.drawn)


def osc_question(d: int, p: int, k1: int, vocabulary: int, *, compact: bool, basis: Basis) -> Work:
    """A question to OSC, of contexts that keep at most half of the space.

    A gaussian basis has k1 d numbers, one of blocks d: it takes every row apart, and k1 times fewer operations.

    >>> osc_question(d=100, p=2, k1=10, vocabulary=1_000, compact=True, basis="gaussian")
    Work(products=420000, scattered=0, drawn=2000)
    >>> osc_question(d=100, p=2, k1=10, vocabulary=1_000, compact=True, basis="blocks")
    Work(products=200000, scattered=22000, drawn=200)
    """
    rows = sum(k1**mode * d ** (p - mode - 1) for mode in range(p))  # of d numbers, each taken inside
    cells, passed = vocabulary * k1**p, 0
    if not compact:  # every candidate is taken inside as well, and its core not formed whole
        rows += vocabulary * p
        half = p // 2
        passed = vocabulary * (2 * p * k1 + (k1 ** (p - half) if p - half > 1 else 0) + 2 * k1**half)
    drawn = (p if compact else 1) * d
    if basis == "gaussian":
        return Work(2 * (rows * k1 * d + cells), passed, k1 * drawn)
    return Work(2 * cells, 2 * rows * d + passed, drawn)


def vector_question(d: int, vocabulary: int) -> Work:
    """A question to an architecture of d numbers: its role undone, and a product with every candidate.

    >>> vector_question(d=1_000, vocabulary=50)
    Work(products=100000, scattered=1000, drawn=1000)
    """
    return Work(2 * vocabulary * d, d, d)


def tpr_question(d: int, vocabulary: int) -> Work:
    """A question to a TPR of one role a path.

    >>> tpr_question(d=100, vocabulary=50)
    Work(products=30000, scattered=0, drawn=100)
    """
    return Work(2 * d * d + 2 * vocabulary * d, 0, d)
