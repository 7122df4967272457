"""File-backed memories: what is stored, forgotten or replaced is on disk when the call returns."""

from pathlib import Path as FilePath
from typing import Self

import torch

from carving.memory.backends import FileBacked
from carving.memory.memory import Memory
from carving.memory.reader import Reader
from carving.storage.locks import Place


class Opened(Memory):
    """A file-backed memory, as `carving.open` returns it: changes are written to its file at once.

    Queries are those of `Memory`. Any number of processes may have one file open: each change takes the file's lock and
    first reads the changes of others. Between its own changes a memory answers from what it read last; `refresh` reads
    again.

    Args:
        path: Name of the memory file, which must exist.
        device: Device of the memory.

    Raises:
        BadFile: If the file is corrupt, or not a memory.
        PermissionError: If the file is read-only.

    >>> from carving import OSC, Memory
    >>> Memory(OSC(d=32, p=2)).save("facts.safetensors")
    >>> with Opened("facts.safetensors") as memory:
    ...     memory.store({"dog": {"says": "woof"}})
    ...     memory.changes, memory.compact(), memory.changes
    1
    (1, 1, 0)
    """

    _backend: FileBacked

    def __init__(self, path: Place, device: torch.device | str = "cpu") -> None:
        self._backend = FileBacked(path, device)

    @classmethod
    def _of(cls, reader: Reader) -> Self:
        return Memory._of(reader)  # type: ignore[return-value]  # what is made of it has no file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def path(self) -> FilePath:
        """The absolute path of the memory file."""
        return self._backend.file.path

    @property
    def changes(self) -> int:
        """The number of changes in the journal, which are not in the file itself yet."""
        return self._backend.now.version.changes

    def refresh(self) -> None:
        """Read the changes that others have made, without waiting for changes in progress."""
        self._backend.refresh()

    def compact(self) -> int:
        """Compact the journal: write the whole file, and return the number of changes that the journal had."""
        return self._backend.compact()

    def close(self) -> None:
        """Close the memory: further changes raise BadValue. Changes up to now are on disk already."""
        self._backend.file.close()


def open_memory(path: Place, device: torch.device | str = "cpu") -> Opened:
    """Open a memory file for changes, which are on disk when `store` or `forget` returns.

    A change is appended to a journal beside the file, in milliseconds whatever the size of the memory; `Memory.load`
    reads it, too. The whole file is written by `compact()`, and when the journal is larger than a quarter of the file
    (but at least 64 KB) or than 4 MB, or has many pairs for the size of the tensor. Any number of processes may have
    the file open, and change it in turn.

    Args:
        path: Name of the memory file, which must exist.
        device: Device of the memory.

    Returns:
        The memory, also a context manager that closes it.

    Raises:
        BadFile: If the file is corrupt, or not a memory.
        PermissionError: If the file is read-only.

    >>> from carving import OSC, Memory
    >>> Memory(OSC(d=32, p=2)).save("facts.safetensors")
    >>> with open_memory("facts.safetensors") as memory:
    ...     memory.store({"dog": {"says": "woof"}})
    ...     memory.recall("dog", "says").value
    1
    'woof'
    >>> Memory.load("facts.safetensors").recall("dog", "says").value
    'woof'
    """
    return Opened(path, device)
