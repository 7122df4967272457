"""Fractional power encoding: numbers as exponents of a random vector, so that binding adds numbers."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from carving.encodings.blends import row_of
from carving.encodings.ranges import finite, numbers
from carving.encodings.source import Source
from carving.errors import BadValue
from carving.schemes.base import Scheme
from carving.symbols.codec import Label
from carving.validate import check_choice, check_integer, check_number, is_finite

# The kernel is the characteristic function of the angles: which angles give it, and what it is.
KERNELS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "sinc": (lambda uniform: (2 * uniform - 1) * math.pi, torch.sinc),
    "gaussian": (lambda uniform: torch.special.ndtri(uniform + 2.0**-54), lambda x: torch.exp(-x.square() / 2)),
    "exponential": (lambda uniform: torch.tan(math.pi * (uniform - 0.5 + 2.0**-54)), lambda x: torch.exp(-x.abs())),
}


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
        source, row = Source(scheme, label, generator), row_of(scheme)
        if row is None or row.powers is None:
            raise BadValue(
                f"{scheme.name} has no fractional powers. Use FHRR, GHRR or HRR, or encode numbers with Level, "
                "Circular or Sinusoid."
            )
        self.features = check_integer("features", features, 1)
        self.shape = check_choice("kernel", kernel, tuple(KERNELS))
        self.bandwidth = check_number("bandwidth", bandwidth)
        if not (is_finite(self.bandwidth) and self.bandwidth > 0):
            raise BadValue(f"bandwidth must be a positive number, got {bandwidth!r}. The default is 1.")
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
