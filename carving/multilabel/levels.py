"""Labels whose components are drawn from their numbers so cheaply that it can be done anew whenever they are ranked.

Each of a component's k1 numbers is one of four levels, two bits of a word that the label's number is mixed to: about a
normal, rounded. Nothing is kept of a label, and its code takes a few operations instead of a hash and 2 d normals.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from carving.hashing import bits, mixed
from carving.symbols.codec import canonical

MEANS = (-1.2711, -0.3247, 0.3247, 1.2711)  # of the four quarters of normals
EACH, BYTE, WORD = 2, 8, 64  # bits of a level, of a byte, of a word


@dataclass(frozen=True)
class Levels:
    """How a label's number becomes p components of k1 numbers."""

    p: int
    k1: int
    key: int

    @classmethod
    def of(cls, p: int, k1: int, seed: int) -> Levels:
        """Those of a seed."""
        return cls(p, k1, int(bits([canonical("levels")], 1, seed=seed, purpose="labels")[0, 0]))

    def components(self, labels: Tensor, like: Tensor) -> Tensor:
        """The components (p, m, k1) of labels, unit rows, on the device and in the dtype of another tensor."""
        wanted = self.p * self.k1
        words = -(-EACH * wanted // WORD)
        drawn = mixed(labels[:, None] * words + torch.arange(words, device=labels.device), self.key)
        shifts = torch.arange(0, WORD, BYTE, device=labels.device)
        parts = ((drawn[:, :, None] >> shifts) & 255).flatten(1)[:, : -(-EACH * wanted // BYTE)]  # (m, bytes)
        levels = _table(like).index_select(0, parts.reshape(-1)).view(len(labels), -1)[:, :wanted]
        return normalize(levels.unflatten(1, (self.p, self.k1)), dim=-1).transpose(0, 1)


def _table(like: Tensor) -> Tensor:
    """The levels that a byte stands for, (256, 4), its lowest bits first."""
    values, places = torch.arange(256, device=like.device), torch.arange(0, BYTE, EACH, device=like.device)
    return like.new_tensor(MEANS)[(values[:, None] >> places) & 3]
