"""Arrays of features as fillers: projections, random Fourier features, fractional powers, and records."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from carving.encodings.base import EncodingSource, check_scheme, component_count, finite, numbers, row_of
from carving.encodings.interpolation import as_filler
from carving.encodings.levels import Circular, Level, Thermometer
from carving.errors import BadType, BadValue
from carving.schemes.base import Scheme
from carving.structures.vectors import binding_into
from carving.symbols.codec import Label
from carving.tiling import rows_within, slices
from carving.validate import check_choice, check_integer, check_positive

FRESH_ENCODINGS = (Circular, Level, Thermometer)  # what they make is nobody else's, so that it is bound in its place

# The kernel is the characteristic function of the angles: which angles give it, and what it is.
KERNELS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "sinc": (lambda uniform: (2 * uniform - 1) * math.pi, torch.sinc),
    "gaussian": (lambda uniform: torch.special.ndtri(uniform + 2.0**-54), lambda x: torch.exp(-x.square() / 2)),
    "exponential": (lambda uniform: torch.tan(math.pi * (uniform - 0.5 + 2.0**-54)), lambda x: torch.exp(-x.abs())),
}


def check_weighable(scheme: Scheme, what: str) -> None:
    """Refuse schemes whose codes are sparse or segments: they have no negative numbers."""
    row = row_of(scheme)
    if row is not None and (row.overlap or row.segmented):
        raise BadValue(
            f"{what} needs vectors with negative numbers, which {row.name} does not have. "
            "Use Record(scheme, features, Level(...))."
        )


def checked(values: object, features: int, device: torch.device) -> Tensor:
    """Values (*, features) as numbers."""
    given = finite(numbers(values, device))
    if given.dim() < 1 or given.shape[-1] != features:
        raise BadValue(f"values must have shape (*, {features}), one number for each feature, got {tuple(given.shape)}")
    return given


def check_encoding(scheme: Scheme, encoding: object) -> None:
    """Refuse what encodes nothing, or numbers for another scheme."""
    if not callable(encoding):
        raise BadType(f"encoding must be callable, got {encoding!r}. Pass for example Level(scheme, label=...).")
    own = getattr(encoding, "scheme", scheme)
    if (own.name, own.facts.filler_shape) != (scheme.name, scheme.facts.filler_shape):
        raise BadValue(f"encoding must be made for {scheme}, got one for {own}")


class Projection(nn.Module):
    """Random projection of arrays: a sum of random fillers, one for each feature, weighted by the values.

    Differentiable. The kernel is the cosine of two arrays, to the power of p for OSC. For architectures of signs, bits
    or phases the result is the sum itself; after `scheme.normalize` signs have the similarity 1 - 2 angle / pi.

    Args:
        scheme: The scheme of the fillers.
        features: Number of values in an array.
        label: Determines the random vectors; encodings of different labels are independent.
        generator: Draws the vectors, for experiments. Pass either `label` or `generator`.

    >>> from carving import make
    >>> scheme = make("HRR", d=2048)
    >>> pixels = Projection(scheme, 64, label="pixels")
    >>> pixels(torch.ones(10, 64)).shape
    torch.Size([10, 2048])
    """

    weight: Tensor

    def __init__(
        self, scheme: Scheme, features: int, *, label: Label = None, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        check_weighable(scheme, "Projection")
        source = EncodingSource(scheme, label, generator)
        self.scheme, self.features = scheme, check_integer("features", features, 1)
        atoms = source.atoms("projection", features)
        self.register_buffer("weight", atoms if row_of(scheme) is None else scheme.picture(atoms))  # type: ignore[attr-defined]

    def forward(self, values: object) -> Tensor:
        """Return vectors (*, *shape) of values (*, features)."""
        given = checked(values, self.features, self.weight.device)
        return as_filler(self.scheme, torch.tensordot(given.to(self.weight.dtype), self.weight, 1))

    def kernel(self, x: object, y: object) -> Tensor:
        """Return the expected similarity (*) of two arrays (*, features)."""
        device = self.weight.device
        one, other = checked(x, self.features, device), checked(y, self.features, device)
        return torch.cosine_similarity(one, other, dim=-1) ** component_count(self.scheme)


class Sinusoid(nn.Module):
    """Random Fourier features of arrays: cosines, or phases for complex architectures.

    Differentiable. The kernel is Gaussian, exp(-|x - y|^2 / (2 bandwidth^2)), to the power of p for OSC. For
    architectures of signs, bits or phases use `scheme.normalize` to quantize the result.

    Args:
        scheme: The scheme of the fillers.
        features: Number of values in an array.
        bandwidth: Standard deviation of the kernel; a good choice is the typical distance of two arrays.
        label: Determines the random vectors; encodings of different labels are independent.
        generator: Draws the vectors, for experiments. Pass either `label` or `generator`.

    >>> from carving import make
    >>> waves = Sinusoid(make("FHRR", d=2048), 4, bandwidth=2.0, label="iris")
    >>> waves.kernel(torch.tensor([2.0, 0, 0, 0]))
    tensor(0.6065)
    """

    weight: Tensor
    phase: Tensor

    def __init__(
        self,
        scheme: Scheme,
        features: int,
        *,
        bandwidth: float = 1.0,
        label: Label = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_weighable(scheme, "Sinusoid")
        source, row = EncodingSource(scheme, label, generator), row_of(scheme)
        self.scheme, self.features = scheme, check_integer("features", features, 1)
        self.bandwidth = check_positive("bandwidth", bandwidth, "Use the typical distance of two arrays.")
        self.complex = row is not None and row.complex
        shape = scheme.facts.filler_shape if row is None else scheme.facts.memory_shape
        waves = shape[:1] if self.complex else shape
        weight = source.normals("sinusoid", (features, *waves)) / self.bandwidth
        self.register_buffer("weight", weight.to(scheme.dtype))
        if self.complex:  # turned vectors: of GHRR turned blocks
            phase = scheme.picture(source.atoms("sinusoid phase", 1)[0])  # type: ignore[attr-defined]
        else:
            phase = (source.uniforms("sinusoid phase", (1, *waves))[0] * (2 * math.pi)).to(scheme.dtype)
        self.register_buffer("phase", phase)

    def forward(self, values: object) -> Tensor:
        """Return vectors (*, *shape) of values (*, features)."""
        given = checked(values, self.features, self.weight.device).to(self.weight.dtype)
        angles = torch.tensordot(given, self.weight, 1)
        if not self.complex:
            return as_filler(self.scheme, math.sqrt(2) * torch.cos(angles + self.phase))
        turned = torch.polar(torch.ones_like(angles), angles)
        return turned.view(*turned.shape, *(1,) * (self.phase.dim() - 1)) * self.phase

    def kernel(self, difference: object) -> Tensor:
        """Return the expected similarity (*) of two arrays with a difference (*, features)."""
        given = checked(difference, self.features, self.weight.device)
        return torch.exp(-given.square().sum(-1) / (2 * self.bandwidth**2)) ** component_count(self.scheme)


class FractionalPower(nn.Module):
    """Fractional power encoding of arrays: encode(x) bound with encode(y) equals encode(x + y).

    Differentiable. For FHRR, GHRR and HRR; the vectors of HRR are unitary, and one or two of its d frequencies do not
    depend on the values.

    Args:
        scheme: FHRR, GHRR or HRR.
        features: Number of values in an array.
        kernel: "sinc", sin(pi x) / (pi x); "gaussian", exp(-x^2 / 2); or "exponential", exp(-|x|). x is the difference
            divided by the bandwidth; kernels are multiplied over features.
        bandwidth: Scale of the kernel.
        label: Determines the random vectors; encodings of different labels are independent.
        generator: Draws the vectors, for experiments. Pass either `label` or `generator`.

    >>> from carving import make
    >>> scheme = make("FHRR", d=4096)
    >>> place = FractionalPower(scheme, 2, kernel="gaussian", label="place")
    >>> here, there = torch.tensor([0.5, 1.0]), torch.tensor([2.0, -1.0])
    >>> torch.allclose(scheme.bind(place(here), place(there)), place(here + there), atol=1e-4)
    True
    >>> place.kernel(torch.tensor([1.0, 0.0]))
    tensor(0.6065)
    """

    frame: Tensor
    turns: Tensor

    def __init__(
        self,
        scheme: Scheme,
        features: int = 1,
        *,
        kernel: str = "gaussian",
        bandwidth: float = 1.0,
        label: Label = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        source, row = EncodingSource(scheme, label, generator), row_of(scheme)
        if row is None or row.powers is None:
            raise BadValue(
                f"{scheme.name} has no fractional powers. Use FHRR, GHRR or HRR, or encode numbers with Level, "
                "Circular or Sinusoid."
            )
        self.features = check_integer("features", features, 1)
        self.shape = check_choice("kernel", kernel, tuple(KERNELS))
        self.bandwidth = check_positive("bandwidth", bandwidth, "The default is 1.")
        self.scheme, self.row = scheme, row
        self.space = scheme.space  # type: ignore[attr-defined]
        angles = self.space.shape[:2] if row.complex else (self.space.d // 2 + 1,)
        drawn = KERNELS[kernel][0](source.uniforms("power", (features, *angles)))
        self.register_buffer("turns", (drawn / self.bandwidth).to(scheme.dtype))
        self.register_buffer("frame", source.atoms("power frame", 1)[0])

    def forward(self, values: object) -> Tensor:
        """Return vectors (*, *shape) of values (*, features), or of values (*) with one feature."""
        given = finite(numbers(values, self.turns.device)).to(self.turns.dtype)
        if self.features == 1:
            given = given.unsqueeze(-1)
        if given.dim() < 1 or given.shape[-1] != self.features:
            raise BadValue(f"values must have shape (*, {self.features}), got {tuple(given.shape)}")
        return self.row.powers(self.space, self.frame, torch.tensordot(given, self.turns, 1))

    def kernel(self, difference: object) -> Tensor:
        """Return the expected similarity of two arrays with a difference (*, features), or (*) with one feature."""
        each = KERNELS[self.shape][1](numbers(difference, self.turns.device) / self.bandwidth)
        alike = each if self.features == 1 else each.prod(-1)
        if self.row.complex:
            return alike
        still = (2 - self.space.d % 2) / self.space.d  # the frequencies that stay
        return still + (1 - still) * alike


class Record(nn.Module):
    """Arrays as bundles: each value is encoded, bound with the role of its feature, and summed.

    The kernel of raw sums is the mean over features of the kernel of the encoding. Needs a VSA.

    Args:
        scheme: A VSA.
        features: Number of values in an array.
        encoding: Encodes the values, such as `Level(scheme, ...)`.
        label: Determines the random vectors; encodings of different labels are independent.
        generator: Draws the vectors, for experiments. Pass either `label` or `generator`.

    >>> from carving import make
    >>> from carving.encodings import Level
    >>> scheme = make("MAP-I", d=2048)
    >>> flower = Record(scheme, 4, Level(scheme, 0, 10, label="cm"), label="iris")
    >>> flower([[5.1, 3.5, 1.4, 0.2]]).shape
    torch.Size([1, 2048])
    """

    roles: Tensor

    def __init__(
        self,
        scheme: Scheme,
        features: int,
        encoding: Callable[[Tensor], Tensor],
        *,
        label: Label = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        source = EncodingSource(scheme, label, generator)
        if row_of(scheme) is None:
            raise BadValue(
                f"Record needs a vector symbolic architecture, got {scheme.name}. "
                "Use scheme.trace(contexts, encoding(values)) instead."
            )
        check_encoding(scheme, encoding)
        self.scheme, self.features, self.encoding = scheme, check_integer("features", features, 1), encoding
        self.register_buffer("roles", source.atoms("record", features))

    def forward(self, values: object) -> Tensor:
        """Return bundles (*, *shape) of values (*, features)."""
        scheme: Scheme = self.scheme
        given = checked(values, self.features, self.roles.device)
        if not isinstance(self.encoding, FRESH_ENCODINGS):  # which take numbers as they are, large ones too
            given = given.to(scheme.dtype)
        flat = given.reshape(-1, self.features)
        room = rows_within(scheme.room, 4 * self.features * torch.Size(scheme.facts.memory_shape).numel())
        made = torch.cat([self._bundled(flat[rows]) for rows in slices(len(flat), room)] or [self._bundled(flat)])
        return made.view(*given.shape[:-1], *made.shape[1:])

    def kernel(self, difference: object) -> Tensor:
        """Return the expected similarity (*) of raw sums of two arrays with a difference (*, features)."""
        own: Any = self.encoding
        if not hasattr(own, "kernel"):
            raise BadValue(f"encoding must have a kernel method, got {own!r}. Level and other encodings have one.")
        return own.kernel(checked(difference, self.features, self.roles.device)).mean(-1)

    def _bundled(self, rows: Tensor) -> Tensor:
        scheme: Any = self.scheme
        made = self.encoding(rows)
        into = binding_into(scheme, made) if isinstance(self.encoding, FRESH_ENCODINGS) else None
        return scheme.bundle(scheme.bind(made, self.roles) if into is None else into(made, self.roles, out=made))


class Density(Record):
    """Arrays as bundles of thermometer codes, each bound with the role of its feature.

    The kernel of raw sums is 1 - 2 mean |x - y| / (high - low). Needs a VSA whose vectors have opposites.

    Args:
        scheme: A VSA.
        features: Number of values in an array.
        low, high: Range of the values.
        outside: "refuse" raises for values outside the range, "clip" clips them.
        label: Determines the random vectors; encodings of different labels are independent.
        generator: Draws the vectors, for experiments. Pass either `label` or `generator`.

    >>> from carving import make
    >>> grey = Density(make("MAP-I", d=2048), 64, 0, 16, label="digits")
    >>> grey(torch.zeros(10, 64)).shape
    torch.Size([10, 2048])
    >>> grey.kernel(torch.full((64,), 4.0))
    tensor(0.5000)
    """

    def __init__(
        self,
        scheme: Scheme,
        features: int,
        low: float = 0.0,
        high: float = 1.0,
        *,
        outside: str = "refuse",
        label: Label = None,
        generator: torch.Generator | None = None,
    ) -> None:
        code = Thermometer(scheme, low, high, outside=outside, label=label, generator=generator)
        super().__init__(scheme, features, code, label=label, generator=generator)


# As plain functions


def arrays(scheme: Scheme, values: object) -> Tensor:
    """Return values as arrays (*, features); refuse single numbers."""
    check_scheme(scheme)
    given = numbers(values, scheme.device)
    if not given.dim():
        raise BadValue(
            f"values must have shape (*, features), got the number {given.item():g}. Use Level for single numbers."
        )
    return given


def projection(
    scheme: Scheme, values: object, *, label: Label = None, generator: torch.Generator | None = None
) -> Tensor:
    """Return arrays (*, features) encoded by `Projection`.

    >>> from carving import make
    >>> projection(make("MAP-C", d=512), torch.ones(3, 8), label="x").shape
    torch.Size([3, 512])
    """
    given = arrays(scheme, values)
    return Projection(scheme, given.shape[-1], label=label, generator=generator)(given)


def sinusoid(
    scheme: Scheme,
    values: object,
    *,
    bandwidth: float = 1.0,
    label: Label = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return arrays (*, features) encoded by `Sinusoid`.

    >>> from carving import OSC
    >>> sinusoid(OSC(40, p=2), torch.ones(3, 8), label="x").shape
    torch.Size([3, 2, 40])
    """
    given = arrays(scheme, values)
    return Sinusoid(scheme, given.shape[-1], bandwidth=bandwidth, label=label, generator=generator)(given)


def fractional_power(
    scheme: Scheme,
    values: Tensor,
    *,
    kernel: str = "gaussian",
    bandwidth: float = 1.0,
    label: Label = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return numbers (*) encoded by `FractionalPower`, (*, *shape).

    >>> from carving import make
    >>> fractional_power(make("HRR", d=512), torch.linspace(-1, 1, 5), label="x").shape
    torch.Size([5, 512])
    """
    return FractionalPower(scheme, kernel=kernel, bandwidth=bandwidth, label=label, generator=generator)(values)


def density(
    scheme: Scheme,
    values: object,
    low: float = 0.0,
    high: float = 1.0,
    *,
    outside: str = "refuse",
    label: Label = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return arrays (*, features) encoded by `Density`.

    >>> from carving import make
    >>> density(make("MAP-I", d=512), torch.rand(3, 8), label="x").shape
    torch.Size([3, 512])
    """
    given = arrays(scheme, values)
    return Density(scheme, given.shape[-1], low, high, outside=outside, label=label, generator=generator)(given)
