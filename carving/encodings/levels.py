"""Numbers as fillers whose similarity decreases with distance: levels, circles, thermometers; numbers from answers.

`kernel` is the expected similarity of two encoded numbers as a function of their difference: the similarity of a vector
symbolic architecture, the inner product of a TPR, the score of OSC in any context.
"""

import cmath
import math
from collections.abc import Sequence
from numbers import Real

import torch
from torch import Tensor, nn

from carving.encodings.base import (
    MAX_LEVELS,
    EncodingSource,
    check_range,
    nearest_of,
    numbers,
    row_of,
    shares,
    wholes,
)
from carving.encodings.interpolation import (
    Interpolation,
    ends,
    falling,
    is_by_coordinate,
    parts_shape,
    random_similarity,
    with_opposites,
)
from carving.errors import BadType, BadValue
from carving.inference.answer import Answer
from carving.schemes.base import Scheme
from carving.symbols.codec import Label
from carving.validate import check_integer, check_positive


class Random(nn.Module):
    """Unrelated symbols 0 .. count - 1: one random filler each.

    The kernel is 1 for equal symbols, else the similarity of unrelated vectors: 0, or the density of sparse codes.

    Args:
        scheme: The scheme of the fillers.
        count: Number of symbols.
        label: Determines the random vectors; encodings of different labels are independent.
        generator: Draws the vectors, for experiments. Pass either `label` or `generator`.

    >>> from carving import make
    >>> letters = Random(make("MAP-I", d=2048), 26, label="letters")
    >>> letters([[0, 1], [25, 0]]).shape
    torch.Size([2, 2, 2048])
    >>> letters.kernel(torch.tensor([0, 3]))
    tensor([1., 0.])
    """

    weight: Tensor

    def __init__(
        self, scheme: Scheme, count: int, *, label: Label = None, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.scheme, self.count = scheme, check_integer("count", count, 1)
        self.register_buffer("weight", EncodingSource(scheme, label, generator).atoms("random", count))

    def forward(self, values: object) -> Tensor:
        """Return fillers (*, *filler_shape) of integers (*)."""
        given = wholes(values, self.count, self.weight.device)
        return self.weight.index_select(0, given.flatten()).view(*given.shape, *self.weight.shape[1:])

    def kernel(self, difference: object) -> Tensor:
        """Return the expected similarity of two symbols with a difference of their numbers."""
        return torch.where(numbers(difference) == 0, 1.0, random_similarity(self.scheme))


class _Ranged(nn.Module):
    """Numbers from low to high, interpolated between two ends."""

    def __init__(
        self,
        scheme: Scheme,
        low: float = 0.0,
        high: float = 1.0,
        *,
        outside: str = "refuse",
        levels: int | None = None,
        label: Label = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.scheme, self.outside = scheme, outside
        first, second, places = self._ends(EncodingSource(scheme, label, generator))
        self.low, self.high = check_range(low, high, outside)
        self.blend = Interpolation(scheme, first, second, places, levels)

    def _ends(self, source: EncodingSource) -> tuple[Tensor, Tensor, Tensor]:
        """Return the two ends, and the share at which each part changes."""
        raise NotImplementedError

    def forward(self, values: object) -> Tensor:
        """Return fillers (*, *filler_shape) of values (*)."""
        given = numbers(values, self.blend.places.device)
        return self.blend.below(shares(given, self.low, self.high, self.outside))


class Level(_Ranged):
    """Numbers from low to high, by interpolation between two random fillers, part by part.

    The kernel is linear, 1 - |x - y| / (high - low), to the power of p for OSC; for sparse codes it decreases to the
    similarity of unrelated vectors. Not differentiable in the values: each part comes from one filler or the other.

    Args:
        scheme: The scheme of the fillers.
        low, high: Range of the values.
        outside: "refuse" raises for values outside the range, "clip" clips them.
        levels: Round values to this many levels, looked up in a table; None gives every value its own filler.
        label: Determines the random vectors; encodings of different labels are independent.
        generator: Draws the vectors, for experiments. Pass either `label` or `generator`.

    >>> from carving import make
    >>> height = Level(make("MAP-I", d=10_000), 0, 200, label="height")
    >>> height([170.0, 180.0]).shape
    torch.Size([2, 10000])
    >>> height.kernel(torch.tensor(10.0))
    tensor(0.9500)
    """

    def _ends(self, source: EncodingSource) -> tuple[Tensor, Tensor, Tensor]:
        first, second = ends(source, "level", 2)
        return first, second, source.uniforms("level places", (1, *parts_shape(source.scheme)))[0]

    def kernel(self, difference: object) -> Tensor:
        """Return the expected similarity of two numbers with a difference."""
        return falling(self.scheme, numbers(difference).abs() / (self.high - self.low))


class Circular(nn.Module):
    """Periodic numbers, such as angles and hours; numbers half a period apart are unrelated.

    The kernel is 1 - 2 times the circular distance in periods, to the power of p for OSC. Periodicity is exact.

    Args:
        scheme: The scheme of the fillers.
        period: Such as 24 for hours.
        label: Determines the random vectors; encodings of different labels are independent.
        generator: Draws the vectors, for experiments. Pass either `label` or `generator`.

    >>> from carving import OSC
    >>> hour = Circular(OSC(64, p=2), 24, label="hour")
    >>> bool((hour([1.0]) == hour([25.0])).all()), hour.kernel(torch.tensor(22.0))
    (True, tensor(0.6944))
    """

    def __init__(
        self, scheme: Scheme, period: float = 1.0, *, label: Label = None, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        source = EncodingSource(scheme, label, generator)
        self.scheme = scheme
        self.period = check_positive("period", period, "For hours it is 24, for angles 2 * math.pi.")
        first, second = ends(source, "circular", 2)
        places = source.uniforms("circular places", (1, *parts_shape(scheme)))[0]
        self.blend = Interpolation(scheme, first, second, places)

    def forward(self, values: object) -> Tensor:
        """Return fillers (*, *filler_shape) of values (*)."""
        given = numbers(values, self.blend.places.device)
        angles = (given.to(torch.float64) / self.period).remainder(1)
        if not bool(angles.isfinite().all()):
            raise BadValue("values must be finite, got NaN or infinity")
        return self.blend((self.blend.spread(angles) - self.blend.places).remainder(1) >= 0.5)

    def kernel(self, difference: object) -> Tensor:
        """Return the expected similarity of two numbers with a difference."""
        turns = (numbers(difference) / self.period).remainder(1)
        return falling(self.scheme, 2 * torch.minimum(turns, 1 - turns))


class Thermometer(_Ranged):
    """Numbers from low to high as thermometer codes: the parts of a random filler are negated one by one.

    The kernel is linear, 1 - 2 |x - y| / (high - low): the two ends are opposites. For OSC one component is negated.
    The similarity is exact for differences of whole parts, if all parts have equal norms.

    Args:
        scheme: The scheme of the fillers; its vectors must have opposites.
        low, high: Range of the values.
        outside: "refuse" raises for values outside the range, "clip" clips them.
        levels: Round values to this many levels, looked up in a table; None gives every value its own filler.
        label: Determines the random vectors; encodings of different labels are independent.
        generator: Draws the vectors, for experiments. Pass either `label` or `generator`.

    >>> from carving import make
    >>> scheme = make("MAP-I", d=1000)
    >>> code = Thermometer(scheme, label="grey")
    >>> scheme.similarity(code(0.3), code([0.3, 0.8, 1.0]))
    tensor([ 1.0000,  0.0000, -0.4000])
    """

    def _ends(self, source: EncodingSource) -> tuple[Tensor, Tensor, Tensor]:
        return opposite_ends(source)

    def kernel(self, difference: object) -> Tensor:
        """Return the expected similarity of two numbers with a difference."""
        return 1 - 2 * numbers(difference).abs() / (self.high - self.low)


def opposite_ends(source: EncodingSource) -> tuple[Tensor, Tensor, Tensor]:
    """Return a filler, its opposite, and the position at which each part changes from one to the other."""
    first, shape = ends(source, "thermometer", 1)[0], parts_shape(source.scheme)
    parts = opposite_parts(source.scheme)
    places = (torch.arange(parts, dtype=torch.float64, device=first.device) + 0.5) / parts
    return first, opposite(source.scheme, first), places.view(shape[-2:]).expand(shape).contiguous()


def opposite_parts(scheme: Scheme) -> int:
    """Return the number of parts that a thermometer negates; of OSC's components only one is used."""
    shape = parts_shape(scheme)
    return math.prod(shape[1:]) if len(shape) == 3 else shape[0]


def opposite(scheme: Scheme, filler: Tensor) -> Tensor:
    """Return the filler whose similarity to this one is -1."""
    row = row_of(scheme)
    if row is None:
        if filler.dim() == 1:
            return -filler
        turned = filler.clone()  # one component: two minus signs would be a plus
        turned[0] = -turned[0]
        return turned
    if row.dtype is not None and row.opposite is None:
        raise BadValue(f"Thermometer needs opposite vectors, which {row.name} does not have. Use Level.")
    return scheme.negative(filler)  # type: ignore[attr-defined]


# As plain functions


def random(scheme: Scheme, count: int, *, label: Label = None, generator: torch.Generator | None = None) -> Tensor:
    """Return fillers (count, *filler_shape) of unrelated symbols, as `Random` gives them.

    >>> from carving import make
    >>> random(make("HRR", d=512), 26, label="letters").shape
    torch.Size([26, 512])
    """
    return Random(scheme, count, label=label, generator=generator).weight


def level(scheme: Scheme, count: int, *, label: Label = None, generator: torch.Generator | None = None) -> Tensor:
    """Return fillers (count, *filler_shape) of the levels 0 .. count - 1, as `Level` gives them.

    The similarity of levels i and j is 1 - |i - j| / (count - 1), to the power of p for OSC.

    >>> from carving import OSC
    >>> level(OSC(64, p=2), 21, label="temperature").shape
    torch.Size([21, 2, 64])
    """
    count = check_integer("count", count, 2, way_out="For a single level use random(scheme, 1, ...).")
    return Level(scheme, 0, count - 1, label=label, generator=generator)(torch.arange(count))


def circular(scheme: Scheme, count: int, *, label: Label = None, generator: torch.Generator | None = None) -> Tensor:
    """Return fillers (count, *filler_shape) of the numbers 0 .. count - 1 around a circle, as `Circular` gives them.

    >>> from carving import make
    >>> circular(make("FHRR", d=512), 24, label="hour").shape
    torch.Size([24, 256])
    """
    count = check_integer("count", count, 1)
    return Circular(scheme, count, label=label, generator=generator)(torch.arange(count))


def thermometer(scheme: Scheme, count: int, *, label: Label = None, generator: torch.Generator | None = None) -> Tensor:
    """Return fillers (count, *filler_shape) of the numbers 0 .. count - 1; the last is the opposite of the first.

    >>> from carving import make
    >>> thermometer(make("BSC", d=100), 11, label="age").shape
    torch.Size([11, 100])
    """
    source, count = EncodingSource(scheme, label, generator), check_integer("count", count, 2)
    if count > (parts := opposite_parts(scheme)) + 1:
        raise BadValue(
            f"count must be at most {parts + 1} for fillers of {parts} parts, which flip one by one, got {count}. "
            "Choose a larger d or fewer numbers."
        )
    first, second, places = opposite_ends(source)
    where = torch.arange(count, dtype=torch.float64, device=places.device) / (count - 1)
    if is_by_coordinate(scheme):  # without the module, which would take longer to make than its codes
        return with_opposites(first, second, places, where)
    return Interpolation(scheme, first, second, places).below(where)


def rounded(values: object, low: float, high: float, count: int) -> Tensor:
    """Return the index 0 .. count - 1 of the nearest level of each value; values outside the range are clipped.

    Args:
        values: Numbers (*).
        low, high: The first and the last level.
        count: Number of levels.

    >>> rounded([0.0, 0.49, 2.0], 0, 1, 11).tolist()
    [0, 5, 10]
    """
    low, high = check_range(low, high, "clip")
    check_integer("count", count, 2, MAX_LEVELS)
    return nearest_of(count, shares(numbers(values), low, high, "clip"))


# Numbers from answers


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
    if period is not None:
        check_positive("period", period, "For hours it is 24.")
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
    if isinstance(value, bool) or not isinstance(value, Real):
        raise BadType(f"answers must be numbers, got {value!r}. Query a memory whose values are levels.")
    if math.isnan(answer.probability):
        raise BadValue("answers must have probabilities. Use a linear scheme such as OSC.")
    return float(value)
