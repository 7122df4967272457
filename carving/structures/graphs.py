"""Mutable graphs, trees and automata: each stores the raw sum of its bound edges, leaves or transitions."""

from collections.abc import Sequence as Items

import torch
from torch import Tensor

from carving.errors import BadType, BadValue
from carving.schemes.base import Scheme
from carving.structures.containers import VectorSum
from carving.structures.vectors import edges, ordered
from carving.validate import check_integer


class Graph(VectorSum):
    """A mutable graph: the sum of its edges, each a target bound with its source.

    Args:
        scheme: A VSA.
        directed: Permute targets before binding, so that edges have a direction.

    >>> from carving import make
    >>> scheme = make("GHRR", d=4096)
    >>> nodes = scheme.fillers(list("abcd"))
    >>> ring = Graph(scheme, directed=True)
    >>> ring.add(nodes, nodes.roll(-1, 0))
    >>> scheme.similarity(ring.neighbors(nodes[3]), nodes).argmax().item()
    0
    """

    def __init__(self, scheme: Scheme, *, directed: bool = False) -> None:
        super().__init__(scheme)
        self.directed = directed

    def add(self, sources: Tensor, targets: Tensor) -> None:
        """Add edges from sources (*, *shape) to targets (*, *shape)."""
        self._change(self._edges(sources, targets), 1)

    def remove(self, sources: Tensor, targets: Tensor) -> None:
        """Remove edges from sources (*, *shape) to targets (*, *shape)."""
        self._change(self._edges(sources, targets), -1)

    def neighbors(self, nodes: Tensor) -> Tensor:
        """Return noisy bundles (*, *shape) of all neighbors of nodes (*, *shape)."""
        there = self.scheme.unbind(self.vector, nodes)
        return ordered(self.scheme, there, -1) if self.directed else there

    def similarity(self, sources: Tensor, targets: Tensor) -> Tensor:
        """Return the similarities (*) of the graph and edges; the mean over both directions where they differ."""
        edges = self._edges(sources, targets)
        leading = torch.broadcast_shapes(self._leading(sources), self._leading(targets))
        return self.scheme.similarity(self.vector, edges).view(self._ways, *leading).mean(0)

    def __len__(self) -> int:
        return self.count // self._ways

    @property
    def _ways(self) -> int:
        """The vectors of an edge: two if it is undirected and binding is not commutative."""
        return 1 if self.directed or self.scheme.facts.commutative else 2

    def _edges(self, sources: Tensor, targets: Tensor) -> Tensor:
        self._paired(sources, targets, "sources and targets must have matching batch shapes")
        size = len(self._shape(sources))
        ends = (x.reshape(-1, *x.shape[-size:]) for x in torch.broadcast_tensors(sources, targets))
        return edges(self.scheme, next(ends), next(ends), self.directed)


class Tree(VectorSum):
    """A mutable tree: the sum of its leaves, each bound with the roles of its branches, permuted by depth.

    Args:
        scheme: A VSA.
        branches: Roles of the branches, (n, *shape).

    >>> from carving import make
    >>> scheme = make("MAP-I", d=4096)
    >>> leaves = scheme.fillers(list("abc"))
    >>> tree = Tree(scheme, scheme.fillers(["left", "right"]))
    >>> for leaf, path in zip(leaves, [(0,), (1, 0), (1, 1)]):
    ...     tree.add(leaf, path)
    >>> scheme.similarity(tree.get((1, 0)), leaves).argmax().item()
    1
    """

    def __init__(self, scheme: Scheme, branches: Tensor) -> None:
        super().__init__(scheme)
        if len(self._leading(branches)) != 1:
            raise BadValue(
                f"branches must have shape (n, *shape), got {tuple(branches.shape)}. Use torch.stack to combine roles."
            )
        self.branches = branches

    def add(self, leaf: Tensor, path: Items[int]) -> None:
        """Add a leaf at a path: a tuple of branch numbers, from the root."""
        self._change(self.scheme.bind_path(leaf, self._roles(path)), 1)

    def remove(self, leaf: Tensor, path: Items[int]) -> None:
        """Remove a leaf at a path."""
        self._change(self.scheme.bind_path(leaf, self._roles(path)), -1)

    def get(self, path: Items[int]) -> Tensor:
        """Return a noisy version of the leaf at a path."""
        return self.scheme.unbind_path(self.vector, self._roles(path))

    def _roles(self, path: Items[int]) -> Tensor:
        if not isinstance(path, Items) or isinstance(path, str | bytes):
            raise BadType(f"path must be a tuple of branch numbers, got {path!r}. Pass for example (0, 1).")
        if not len(path):
            raise BadValue("path must have at least one branch, got an empty path")
        last = len(self.branches) - 1
        numbers = [check_integer("a branch", branch, 0, last, "Branches are numbered from 0.") for branch in path]
        return torch.stack([ordered(self.scheme, self.branches[branch], depth) for depth, branch in enumerate(numbers)])


class Automaton(VectorSum):
    """A mutable finite-state automaton: the sum of its transitions.

    A transition is the next state, permuted, bound with the state and the token.

    Args:
        scheme: A VSA.

    >>> from carving import make
    >>> scheme = make("MAP-I", d=4096)
    >>> (closed, opened), (push, coin) = scheme.fillers(["closed", "opened"]), scheme.fillers(["push", "coin"])
    >>> turnstile = Automaton(scheme)
    >>> turnstile.add(closed, coin, opened)
    >>> turnstile.add(opened, push, closed)
    >>> scheme.similarity(turnstile.step(opened, push), torch.stack((closed, opened))).argmax().item()
    0
    """

    def add(self, state: Tensor, token: Tensor, then: Tensor) -> None:
        """Add a transition from a state by a token to the state `then`."""
        self._change(self._bound(state, token, then), 1)

    def remove(self, state: Tensor, token: Tensor, then: Tensor) -> None:
        """Remove a transition from a state by a token to the state `then`."""
        self._change(self._bound(state, token, then), -1)

    def step(self, state: Tensor, token: Tensor) -> Tensor:
        """Return a noisy bundle of the next states of a state by a token."""
        there = self.scheme.unbind(self.scheme.unbind(self.vector, token), state)
        return ordered(self.scheme, there, -1)

    def _bound(self, state: Tensor, token: Tensor, then: Tensor) -> Tensor:
        return self.scheme.bind(self.scheme.bind(ordered(self.scheme, then), state), token)
