"""Contexts that are asked for again and again, kept up to a limit of bytes."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import fields

import torch

from carving.checks import as_path, check_integer, listed
from carving.draws import Path, canonical_path
from carving.scheme import Contexts, Scheme


class ContextCache:
    """`cache.contexts(paths)` is `scheme.contexts(paths)`, made once; the longest unused make room for new ones."""

    def __init__(self, scheme: Scheme, limit: int = 256 * 2**20) -> None:
        self.scheme = scheme
        self.limit = check_integer("limit", limit, 1, way_out="it is a number of bytes")
        self._slots: OrderedDict[bytes, int] = OrderedDict()  # the longest unused first
        self._table: Contexts | None = None  # a row a slot

    def __len__(self) -> int:
        return len(self._slots)

    def contexts(self, paths: Iterable[Path]) -> Contexts:
        """The paths' contexts, a row each."""
        asked = [as_path(path) for path in listed(paths, "paths")]
        names = [canonical_path(path) for path in asked]
        wanted = dict(zip(names, asked, strict=True))
        table = self._table_for(asked[0])
        rows = len(table)
        missing = {name: path for name, path in wanted.items() if name not in self._slots}
        made = self.scheme.contexts(missing.values()) if missing else None
        if len(wanted) > rows or (made is not None and not _alike(made, table)):
            return self.scheme.contexts(asked)

        for name in wanted.keys() & self._slots.keys():
            self._slots.move_to_end(name)
        new_slots = []
        for name in missing:
            slot = len(self._slots) if len(self._slots) < rows else self._slots.popitem(last=False)[1]
            self._slots[name] = slot
            new_slots.append(slot)
        if made is not None:
            for field in fields(table):
                getattr(table, field.name)[new_slots] = getattr(made, field.name)
        return table[torch.tensor([self._slots[name] for name in names], device=self.scheme.device)]

    def _table_for(self, path: Path) -> Contexts:
        if self._table is None:
            one = self.scheme.contexts([path])
            rows = self.limit // one.nbytes
            self._table = one.changed(lambda tensor: tensor.new_empty(rows, *tensor.shape[1:]))
        return self._table


def _alike(one: Contexts, other: Contexts) -> bool:
    """Whether rows of the one fit into the other: sequences of roles may differ in depth."""
    shapes = [[getattr(contexts, field.name).shape[1:] for field in fields(contexts)] for contexts in (one, other)]
    return shapes[0] == shapes[1]
