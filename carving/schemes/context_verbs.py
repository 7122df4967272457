"""Operations of schemes whose roles are contexts (OSC and CliffordOSC), and errors for operations a scheme lacks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.nn.functional import normalize

from carving.errors import BadType, BadValue
from carving.schemes.base import FILLERS, C, ContextsOrPaths, Scheme, own_contexts
from carving.validate import check_tensor


def absent(verb: str, reason: str) -> Callable[..., NoReturn]:
    """Return a method for an operation that the scheme lacks: it raises, with the reason and an alternative."""

    def refuse(scheme: Any, *given: object, **named: object) -> NoReturn:
        raise NotImplementedError(f"{scheme.name} has no {verb}: {reason}.")

    refuse.__doc__ = f"Not available: {reason}."
    return refuse


PATHS = "contexts are not vectors"
REAL = "its numbers are real. Use similarity or cosine_similarity"
MIXED = "its fillers cannot be mixed component by component. Use encodings.Level to blend two of them"


@dataclass(frozen=True, repr=False, kw_only=True)
class ContextVerbs(Scheme[C]):
    """Binding operations of schemes whose roles are contexts; a bound filler has the shape of a memory."""

    def bind(self, fillers: Tensor, contexts: ContextsOrPaths) -> Tensor:
        """Return each filler bound in its context; `trace` computes their sum without the single terms.

        Args:
            fillers: (n, *filler_shape).
            contexts: n contexts, or n paths.

        Returns:
            (n, *memory_shape).
        """
        own = own_contexts(self, contexts)
        check_tensor("fillers", fillers, (len(own), *self.facts.filler_shape), FILLERS)
        rows = [self.write(self.encode(fillers[[row]], own[[row]]), own[[row]]) for row in range(len(own))]
        return torch.stack(rows)

    def unbind(self, memory: Tensor, contexts: ContextsOrPaths) -> Tensor:
        """Return the cores (n, *core_shape) of n contexts, to compare with `encode(fillers, contexts)`."""
        return self.read(memory, contexts)

    def bundle(self, memories: Tensor) -> Tensor:
        """Return the sum over n of memories or bound fillers (*, n, *memory_shape)."""
        dim = self._set_dim(memories)
        return memories.sum(dim)

    def multibundle(self, memories: Tensor) -> Tensor:
        """Alias of `bundle`, the name in torchhd."""
        return self.bundle(memories)

    def negative(self, memory: Tensor) -> Tensor:
        """Return the additive inverse of a memory."""
        self._check_memories(memory)
        return -memory

    def empty(self) -> Tensor:
        """Return an empty memory, (*memory_shape)."""
        return self.zeros()

    def normalize(self, memory: Tensor) -> Tensor:
        """Return memories scaled to norm 1, the norm of one bound filler; a zero memory stays zero."""
        self._check_memories(memory)
        return normalize(memory.flatten(-len(self.facts.memory_shape)), dim=-1).view(memory.shape)

    def dot_similarity(self, memory: Tensor, others: Tensor) -> Tensor:
        """Return the inner products (*, n) of memories (*, *memory_shape) and others (n, *memory_shape)."""
        self._check_memories(memory)
        self._check_others(others)
        size = len(self.facts.memory_shape)
        return memory.flatten(-size) @ others.flatten(1).mT

    def cosine_similarity(self, memory: Tensor, others: Tensor) -> Tensor:
        """Return the cosines (*, n) of memories (*, *memory_shape) and others (n, *memory_shape)."""
        self._check_others(others)
        size = len(self.facts.memory_shape)
        others = normalize(others.flatten(-size), dim=-1).view(others.shape)
        return self.dot_similarity(self.normalize(memory), others)

    def similarity(self, memory: Tensor, others: Tensor) -> Tensor:
        """Alias of `cosine_similarity`."""
        return self.cosine_similarity(memory, others)

    def _check_memories(self, memories: Tensor) -> None:
        shape = self.facts.memory_shape
        if not isinstance(memories, Tensor):
            raise BadType(
                f"A memory of {self.name} must be a tensor, got {type(memories).__name__}. Create one with trace(...)."
            )
        if memories.shape[-len(shape) :] != shape:
            wanted = ", ".join(map(str, shape))
            raise BadValue(
                f"Memories of {self.name} must have shape (*, {wanted}), got {tuple(memories.shape)}. Create them with "
                "trace(...) or bind(...)."
            )

    def _check_others(self, others: Tensor) -> None:
        self._check_memories(others)
        if others.dim() != 1 + len(self.facts.memory_shape):
            wanted = ", ".join(map(str, self.facts.memory_shape))
            raise BadValue(
                f"others must have shape (n, {wanted}), got {tuple(others.shape)}. Use unsqueeze(0) for one memory."
            )

    def _set_dim(self, memories: Tensor) -> int:
        self._check_memories(memories)
        shape = self.facts.memory_shape
        if memories.dim() <= len(shape):
            wanted = ", ".join(map(str, shape))
            raise BadValue(f"memories must have shape (*, n, {wanted}), got {tuple(memories.shape)}")
        return -1 - len(shape)

    permute = absent(
        "permute", "the order of roles counts in every path. Put the position into the path: (position, role)"
    )
    inverse = absent("inverse", f"{PATHS}. Use unbind(memory, contexts)")
    identity = absent("identity", "every context keeps only a part of the space")
    multibind = absent("multibind", f"{PATHS}. Use a path of several roles, which is one context: (role, role, ...)")
    cross_product = absent("cross_product", f"{PATHS}. Write every pair with trace(contexts, fillers)")
    hamming_similarity = absent("hamming_similarity", REAL)
    randsel = absent("randsel", MIXED)
    multirandsel = absent("multirandsel", MIXED)
    hard_quantize = absent("hard_quantize", "memories are quantized as a whole. Use Memory.quantize(bits=...)")
    soft_quantize = absent("soft_quantize", "memories are quantized as a whole. Use Memory.quantize(bits=...)")
