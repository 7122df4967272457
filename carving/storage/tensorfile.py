"""Files of tensors: safetensors with a checksum, read from one open descriptor and written atomically.

Equal contents give equal bytes, which the safetensors library does not guarantee. A file is opened once, so that a
concurrent replacement does not mix two versions. The sizes in the header are compared with the size of the file before
memory is allocated, and tensors are copies, independent of later changes of the file.
"""

import contextlib
import hashlib
import json
import os
import stat
import struct
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from io import FileIO
from itertools import starmap
from math import prod
from operator import attrgetter
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from carving.errors import BadValue
from carving.storage.locks import Place, shown
from carving.tensors import lasting
from carving.validate import sentence

AT_ONCE = 2**20  # numbers that are looked at in one go
LARGEST = 2**23  # bytes of a header: ours have a few thousand
ENDLESS = 2**48  # numbers or bytes that no tensor has
MEMBERS = {"dtype", "shape", "data_offsets"}  # of what a header says of a tensor
# What metadata that lies can lead to. Errors of torch, of the system and of memory are none of it, nor is what a bug
# alone raises.
DAMAGE = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError, struct.error)
DTYPES = {
    **dict(F64=torch.float64, F32=torch.float32, F16=torch.float16, BF16=torch.bfloat16),
    **dict(I64=torch.int64, I32=torch.int32, I16=torch.int16, I8=torch.int8, U8=torch.uint8),
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
KINDS = {  # formats
    "memory": "carving memory",
    "quantized memory": "carving quantized ",
    "label model": "carving labels ",
    "checkpoint": "carving training ",
    "index": "carving index",
}

Metadata = dict[str, str]
Tensors = dict[str, Tensor]


class BadFile(BadValue):
    """A file that is corrupt, of another kind, or of a format version that this Carving does not read."""


class NotWhole(ValueError):
    """A problem of a file, without the name of the file, which the caller adds."""


def check_version(
    path: Place, received: object, expected: object, way_out: str, error: type[BadFile] = BadFile
) -> None:
    """Raise an error if the format version of a file is not the one that this Carving reads and writes.

    Args:
        path: The file, for the message.
        received: The version that the file claims; it is shown shortened, with control characters escaped.
        expected: The version that this Carving reads.
        way_out: A sentence that says what to do.
        error: The class of the error.
    """
    if received != expected:
        raise error(
            f"{shown(path)} has format version {received!r:.30}, and this version of Carving reads {expected!r}. "
            f"{way_out} Or read it with the version of Carving that wrote it."
        )


def read_whole(
    path: Place,
    noun: str,
    check: Callable[[Metadata], None],
    error: type[BadFile] = BadFile,
    way_out: str = "Restore it from a backup.",
    only: Collection[str] | None = None,
    left: Collection[str] = (),
) -> tuple[Metadata, Tensors]:
    """Read the metadata and the tensors of a file; `check_sum` verifies the checksum.

    Args:
        path: The file.
        noun: The expected kind of file, for messages.
        check: Called with the metadata before tensors are loaded, to refuse files of another kind or version.
        error: The class of errors.
        way_out: What to do about a corrupt file, for messages.
        only: The tensors to load; others are on torch's device "meta", with a shape but no data. None loads all.
        left: The tensors to map into memory instead of loading them.
    """
    with _opened(path) as file:
        try:
            size = os.fstat(file.fileno()).st_size
            metadata, entries = _header(file, size)
        except (NotWhole, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as problem:
            raise error(
                f"{shown(path)} is not a complete {noun} ({shown(problem)}). It is truncated, corrupt or of another "
                f"kind. {sentence(way_out)}"
            ) from None
        check(metadata)
        try:
            start = file.tell()
            return metadata, {
                entry.name: _outline(entry)
                if only is not None and entry.name not in only
                else _left(file, start, entry)
                if entry.name in left
                else _tensor(file, start, entry)
                for entry in entries
            }
        except NotWhole as problem:
            raise error(f"{shown(path)} was truncated while it was read ({problem}). {sentence(way_out)}") from None
        except MemoryError:
            raise MemoryError(f"{shown(path)} has {size:,} bytes: not enough memory to read it") from None


@contextlib.contextmanager
def _opened(path: Place) -> Iterator[FileIO]:
    """The file, open for reading; a pipe or a device is refused, not waited for."""
    try:
        there = os.stat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # the last for a name that none can have
        raise FileNotFoundError(f"{shown(path)} does not exist") from None
    if not stat.S_ISREG(there.st_mode):
        raise FileNotFoundError(f"{shown(path)} is not a file")
    with open(path, "rb", buffering=0) as file:
        yield file


@dataclass(frozen=True)
class _Entry:
    """What a header says of a tensor."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    end: int


def _header(file: FileIO, size: int) -> tuple[Metadata, list[_Entry]]:
    """Metadata and tensors of a file of this size, in their order; nothing that the size does not warrant."""
    length = int.from_bytes(_bytes(file, 8), "little")
    if not 2 <= length <= min(LARGEST, size - 8):
        raise NotWhole(f"the header declares {length} of {size} bytes")
    raw = _bytes(file, length)
    header = json.loads(raw.decode())
    # Every byte counts: what says the same in other bytes was changed by someone, or by chance.
    if not isinstance(header, dict) or _packed(header) != raw:
        raise NotWhole("the header is not in the form that Carving writes")
    metadata = _texts(header.pop("__metadata__", {}))
    entries = sorted(starmap(_entry, header.items()), key=attrgetter("start", "end"))
    ends, there = [0, *(entry.end for entry in entries)], size - 8 - length
    if [entry.start for entry in entries] != ends[:-1] or ends[-1] != there:
        raise NotWhole(f"the header declares {ends[-1]} bytes of tensors, the file has {there}")
    return metadata, entries


def _texts(metadata: Any) -> Metadata:
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise NotWhole("the metadata must be strings")
    return metadata


def _entry(name: str, said: Any) -> _Entry:
    """What a header says of a tensor, once it has passed every check."""
    for holds, problem in CLAIMS:
        if not holds(said):
            raise NotWhole(problem.format(f"tensor {name!r}"))
    return _Entry(name, DTYPES[said["dtype"]], tuple(said["shape"]), *said["data_offsets"])


def _is_known(said: Any) -> bool:
    return isinstance(said, dict) and set(said) == MEMBERS and said["dtype"] in [*DTYPES]  # which may be a list


def _has_sizes(said: dict[str, Any]) -> bool:
    lists = said["shape"], said["data_offsets"]
    return all(isinstance(each, list) and all(type(n) is int and 0 <= n < ENDLESS for n in each) for each in lists)


def _ends(said: dict[str, Any]) -> bool:
    return len(said["shape"]) <= 64 and prod(n or 1 for n in said["shape"]) < ENDLESS


def _fills(said: dict[str, Any]) -> bool:
    size = prod(said["shape"]) * DTYPES[said["dtype"]].itemsize
    return len(said["data_offsets"]) == 2 and said["data_offsets"][1] - said["data_offsets"][0] == size


# What must hold of what a header says of a tensor, each if those before do, and what is said where it does not.
CLAIMS: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (_is_known, "malformed header entry of {}"),
    (_has_sizes, "{} has an invalid shape or offsets"),
    (_ends, "{} is too large"),
    (_fills, "the shape of {} does not match its offsets"),
)


def _outline(entry: _Entry) -> Tensor:
    return torch.empty(entry.shape, dtype=entry.dtype, device="meta")


def _tensor(file: FileIO, start: int, entry: _Entry) -> Tensor:
    file.seek(start + entry.start)
    try:
        with lasting():
            tensor = torch.empty(entry.shape, dtype=entry.dtype)
    except RuntimeError as error:  # all that torch says where the system gives no memory
        raise MemoryError(str(error)) from None
    _fill(file, raw_bytes(tensor), f"tensor {entry.name!r}")
    return tensor


def _left(file: FileIO, start: int, entry: _Entry) -> Tensor:
    """A tensor where it lies; what is written to it stays in this process."""
    octets = np.memmap(file, np.uint8, "c", start + entry.start, (max(1, entry.end - entry.start),))
    return torch.from_numpy(octets)[: entry.end - entry.start].view(entry.dtype).view(entry.shape)


def _bytes(file: FileIO, count: int) -> bytes:
    data = bytearray(count)
    _fill(file, memoryview(data), "the header")
    return bytes(data)


def _fill(file: FileIO, view: memoryview, what: str) -> None:
    """Read until the view is full, in as many pieces as the system gives."""
    done = 0
    while done < len(view):
        more = file.readinto(view[done:])
        if not more:
            raise NotWhole(f"{what} ends after {done} of {len(view)} bytes")
        done += more


def mapped(path: Place, noun: str, check: Callable[[Metadata], None]) -> tuple[Metadata, dict[str, NDArray[Any]]]:
    """Return the metadata and the tensors of a file as read-only memory-mapped arrays; no checksum is verified.

    They remain valid if the file is replaced later.
    """
    with _opened(path) as file:
        try:
            metadata, entries = _header(file, os.fstat(file.fileno()).st_size)
        except (NotWhole, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as problem:
            raise BadFile(f"not a complete {noun}: {shown(problem)}") from None
        check(metadata)
        start = file.tell()
        arrays = {
            entry.name: np.memmap(file, _array_dtype(entry.dtype), "c", start + entry.start, entry.shape)
            if entry.end > entry.start
            else np.empty(entry.shape, _array_dtype(entry.dtype))
            for entry in entries
        }
        return metadata, arrays


def _array_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    return torch.empty(0, dtype=dtype).numpy().dtype


def check_sum(metadata: Metadata, tensors: Tensors) -> None:
    """Raise an error if the checksum in the metadata is not that of the tensors and the metadata."""
    if metadata.get("checksum") != checksum(tensors, metadata):
        raise NotWhole("the checksum does not match the contents")


def checksum(tensors: Tensors, metadata: Metadata) -> str:
    """Return the SHA-256 of the tensors and of the metadata, without the checksum itself."""
    digest = hashlib.sha256()
    said = {key: value for key, value in metadata.items() if key != "checksum"}
    digest.update(json.dumps(said, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode("utf-8", "surrogatepass"))
        digest.update(raw_bytes(tensor))
    return digest.hexdigest()


def raw_bytes(tensor: Tensor) -> memoryview:
    """The bytes of a tensor where they lie."""
    if not tensor.numel():
        return memoryview(b"")  # torch gives no bytes of some that are empty
    return tensor.contiguous().view(-1).view(torch.uint8).numpy().data


def all_finite(tensor: Tensor) -> bool:
    """Whether there is neither infinity nor not-a-number in it; a large one is not copied for that."""
    parts = tensor.detach().reshape(-1).split(AT_ONCE)
    return all(bool(torch.isfinite(part).all()) for part in parts)


def said_by(path: Place) -> Metadata | None:
    """What a file of tensors says of itself, of which nothing is checked but that it is one; None if it is none."""
    try:
        with _opened(path) as file:
            return _header(file, os.fstat(file.fileno()).st_size)[0]
    except (FileNotFoundError, ValueError, RecursionError):
        return None


def kind_of(path: Place) -> str | None:
    """Return the kind of a file that Carving wrote, one of `KINDS`; None for other files."""
    try:
        metadata = said_by(path) or {}
    except OSError as error:
        failed = OSError(f"{shown(path)} could not be read ({shown(error)})")
        failed.errno = error.errno
        raise failed from error
    return next((kind for kind, format in KINDS.items() if metadata.get("format", "").startswith(format)), None)


def write_tensors(file: BinaryIO, tensors: Tensors, metadata: Metadata) -> None:
    """The file's bytes, from where the tensors lie: there may be no room for a copy."""
    header: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))}
    order = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))  # so that numbers lie at whole places
    start = 0
    for name in order:
        tensor, end = tensors[name], start + tensors[name].nbytes
        header[name] = dict(dtype=NAMES[tensor.dtype], shape=list(tensor.shape), data_offsets=[start, end])
        start = end
    packed = _packed(header)
    file.write(len(packed).to_bytes(8, "little") + packed)
    for name in order:
        file.write(raw_bytes(tensors[name]))


def _packed(header: dict[str, Any]) -> bytes:
    """A header as it stands in files: without spaces, but for those that fill its last eight bytes."""
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return text + b" " * (-len(text) % 8)
