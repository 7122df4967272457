"""The first number for which something holds that then holds for all larger ones."""

from bisect import bisect_left
from collections.abc import Callable


def smallest(predicted: Callable[[int], float], wanted: float) -> int:
    """The smallest size at which a prediction that grows with it reaches the wanted accuracy.

    >>> smallest(lambda size: size / 100, 0.65)
    65
    """
    high = 2
    while predicted(high) < wanted:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if predicted(middle) >= wanted else (middle, high)
    return high


def first(holds: Callable[[int], bool], guess: int, least: int) -> int:
    """The first number from `least` on for which it holds, as it does for all after that; sought from a guess on.

    >>> first(lambda number: number >= 1_000, guess=900, least=1)
    1000
    """
    low = high = max(guess, least)
    step = max(1, low // 32)
    if holds(high):
        while low > least and holds(low := max(least, high - step)):
            high, step = low, 2 * step
        low += low < high
    else:
        while not holds(high):
            low, high, step = high + 1, high + step, 2 * step
    return bisect_left(range(high), True, lo=low, key=holds)
