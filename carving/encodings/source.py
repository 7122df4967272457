"""Random numbers of encodings: derived from a label, or drawn by a generator for experiments."""

from dataclasses import dataclass

import torch
from torch import Tensor

from carving import hashing
from carving.errors import BadType, BadValue
from carving.hashing import Bits
from carving.schemes.base import Scheme
from carving.symbols.codec import Label, canonical_path
from carving.validate import check_integer


def check_scheme(scheme: object) -> None:
    """Refuse what is not a scheme."""
    if not isinstance(scheme, Scheme):
        raise BadType(f'scheme must be a Scheme, got {scheme!r}. Pass for example make("MAP-I", d=4096).')


@dataclass(frozen=True)
class Source:
    """Random atoms and numbers for one encoding; draws of different `kind` are independent."""

    scheme: Scheme
    label: Label = None
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        check_scheme(self.scheme)
        if self.generator is not None and not isinstance(self.generator, torch.Generator):
            raise BadType(f"generator must be a torch.Generator, got {self.generator!r}")
        if (self.label is None) == (self.generator is None):
            raise BadValue(
                "Exactly one of label and generator must be given. With label='temperature' the vectors are always the "
                "same; generator=torch.Generator().manual_seed(0) is for experiments."
            )

    def words(self, kind: str, count: int, words: int) -> Bits:
        """Return random words of the label, (count, words)."""
        names = [canonical_path((kind, self.label, row)) for row in range(count)]
        return hashing.bits(names, words, seed=self.scheme.seed, purpose="encoding")

    def atoms(self, kind: str, count: int) -> Tensor:
        """Return random fillers of the scheme, (count, *filler_shape)."""
        check_integer("count", count, 1)
        if self.generator is not None:
            return self.scheme.random(count, self.generator)
        facts = self.scheme.facts
        drawn = self.scheme._fillers(self.words(kind, count, facts.filler_words))
        return drawn.to(self.scheme.device, facts.filler_dtype)

    def uniforms(self, kind: str, shape: tuple[int, ...]) -> Tensor:
        """Return uniform numbers of [0, 1) in float64."""
        if self.generator is not None:
            return torch.rand(shape, generator=self.generator, device=self.generator.device, dtype=torch.float64).to(
                self.scheme.device
            )
        rows, each = shape[0], torch.Size(shape[1:]).numel()
        return hashing.uniforms(self.words(kind, rows, each)).view(shape).to(self.scheme.device)

    def normals(self, kind: str, shape: tuple[int, ...]) -> Tensor:
        """Return normal numbers in float64."""
        if self.generator is not None:
            return torch.randn(shape, generator=self.generator, device=self.generator.device, dtype=torch.float64).to(
                self.scheme.device
            )
        rows, each = shape[0], torch.Size(shape[1:]).numel()
        drawn = hashing.normals(self.words(kind, rows, hashing.words_for_normals(each)))
        return drawn[:, :each].reshape(shape).to(self.scheme.device)
