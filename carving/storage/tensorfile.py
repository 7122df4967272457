"""Files of tensors: safetensors with a checksum, read from one open descriptor and written atomically.

The safetensors library is not used: it writes equal contents as different bytes, and it maps tensors, which end the
process if the file is truncated behind them; copied, they take as long as here. A file is opened once, so that a
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
from io import BytesIO, FileIO
from math import prod
from operator import attrgetter
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import torch
from torch import Tensor

from carving.errors import BadValue, UnknownScheme, UserError
from carving.storage.atomic import write_atomically
from carving.storage.locks import Place, check_target, locked, reworded, shown
from carving.tensors import lasting
from carving.validate import check_choice

CHUNK = 2**20  # numbers that are looked at at a time
MAX_HEADER = 2**23  # bytes: ours have a few thousand
MAX_NUMBERS = 2**48  # numbers or bytes of a tensor
DTYPES = {
    **dict(F64=torch.float64, F32=torch.float32, F16=torch.float16, BF16=torch.bfloat16),
    **dict(I64=torch.int64, I32=torch.int32, I16=torch.int16, I8=torch.int8, U8=torch.uint8),
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
KINDS = {  # with the beginning of their format
    "memory": "carving memory",
    "quantized memory": "carving quantized ",
    "label model": "carving labels ",
    "checkpoint": "carving training ",
    "index": "carving index",
}
PAIRS = "file of pairs"  # the kind of all files that are none of these
RESTORE = "Restore it from a backup."

Metadata = dict[str, str]
Tensors = dict[str, Tensor]


class BadFile(BadValue):
    """A file that is corrupt, of another kind, or of a format version that this Carving does not read."""


class NotWhole(ValueError):
    """Damage of a file, without the name of the file, which the caller adds."""


@contextlib.contextmanager
def parsing() -> Iterator[None]:
    """Turn the errors that a parser raises for damaged text into `NotWhole`; nothing but parsing belongs inside."""
    try:
        yield
    except (NotWhole, UserError):
        raise
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError, struct.error) as error:
        raise NotWhole(str(error) or type(error).__name__) from None


@contextlib.contextmanager
def refusing_damage(path: Place, error: type[BadFile] = BadFile, way_out: str = RESTORE) -> Iterator[None]:
    """Report damage and impossible values as a corrupt file; every other error passes through as what it is."""
    try:
        yield
    except BadFile:
        raise
    except UnknownScheme as problem:
        raise UnknownScheme(f"{shown(path)} has a scheme that is not registered. {shown(problem)}") from None
    except (NotWhole, UserError) as problem:
        raise error(f"{shown(path)} is corrupt ({shown(problem)}). {way_out}") from None


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


# Reading


class TensorEntry(NamedTuple):
    """A tensor as a header declares it; `start` and `end` of its bytes count from the end of the header."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    end: int


def read_tensors(
    path: Place,
    noun: str,
    check: Callable[[Metadata], None],
    error: type[BadFile] = BadFile,
    way_out: str = RESTORE,
    only: Collection[str] | None = None,
    mapped: Collection[str] = (),
    data: bytes | None = None,
) -> tuple[Metadata, Tensors]:
    """Read the metadata and the tensors of a file, and verify its checksum.

    Args:
        path: The file.
        noun: The expected kind of file, for messages.
        check: Called with the metadata before tensors are loaded, to refuse files of another kind or version.
        error: The class of errors.
        way_out: What to do about a corrupt file, for messages.
        only: The tensors to load; others are on torch's device "meta", with a shape but no data, and the checksum is
            not verified. None loads all.
        mapped: The tensors to map into memory instead of loading them; what is written to them stays in this process.
        data: The bytes of the file, if they are known: then `path` is only its name in messages.
    """
    with _open(path) if data is None else BytesIO(data) as file:
        try:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            raw = _read_header(file, size)
            metadata, entries = _parse_header(raw, size - 8 - len(raw))
        except NotWhole as problem:
            raise error(
                f"{shown(path)} is not a complete {noun} ({shown(problem)}). It is truncated, corrupt or of another "
                f"kind. {way_out}"
            ) from None
        check(metadata)
        tensors, start = Tensors(), 8 + len(raw)
        try:
            for entry in entries:
                if only is not None and entry.name not in only:
                    tensors[entry.name] = torch.empty(entry.shape, dtype=entry.dtype, device="meta")
                elif entry.name in mapped and entry.end > entry.start:
                    octets = np.memmap(file, np.uint8, "c", start + entry.start, (entry.end - entry.start,))
                    tensors[entry.name] = torch.from_numpy(octets).view(entry.dtype).view(entry.shape)
                else:
                    tensors[entry.name] = _tensor(file, start, entry)
        except NotWhole as problem:
            raise error(f"{shown(path)} was truncated while it was read ({problem}). {way_out}") from None
        except MemoryError:
            raise MemoryError(f"{shown(path)} has {size:,} bytes: not enough memory to read it") from None
    with refusing_damage(path, error, way_out):
        if only is None:
            check_sum(metadata, tensors)
    return metadata, tensors


def _open(path: Place) -> FileIO:
    """Open a file for reading; a pipe or a device is refused, not waited for."""
    try:
        there = os.stat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # the last for a name that none can have
        raise FileNotFoundError(f"{shown(path)} does not exist") from None
    if not stat.S_ISREG(there.st_mode):
        raise FileNotFoundError(f"{shown(path)} is not a file")
    return open(path, "rb", buffering=0)


def _read_header(file: FileIO | BytesIO, size: int) -> bytes:
    length = int.from_bytes(_fill(file, bytearray(8), "the header"), "little")
    if not 2 <= length <= min(MAX_HEADER, size - 8):
        raise NotWhole(f"the header declares {length} of {size} bytes")
    return bytes(_fill(file, bytearray(length), "the header"))


def _parse_header(raw: bytes, size: int) -> tuple[Metadata, list[TensorEntry]]:
    """Return the metadata and the tensors that a header declares, in their order; `size` bytes must follow it."""
    with parsing():
        header = json.loads(raw.decode())
    # Every byte counts: another encoding of the same header was made by someone else, or by chance.
    if not isinstance(header, dict) or _pack_header(header) != raw:
        raise NotWhole("the header is not in the form that Carving writes")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise NotWhole("the metadata must be strings")
    entries = sorted([_parse_entry(*item) for item in header.items()], key=attrgetter("start", "end"))
    end = 0
    for entry in entries:
        if entry.start != end:
            raise NotWhole(f"the tensor {entry.name!r} does not begin where the one before it ends")
        end = entry.end
    if end != size:
        raise NotWhole(f"the header declares {end} bytes of tensors, the file has {size}")
    return metadata, entries


def _parse_entry(name: str, said: Any) -> TensorEntry:
    try:
        start, end = said["data_offsets"]
        entry = TensorEntry(name=name, dtype=DTYPES[said["dtype"]], shape=tuple(said["shape"]), start=start, end=end)
        sizes = [*entry.shape, entry.start, entry.end]
        is_valid = len(said) == 3 and {type(size) for size in sizes} == {int} and min(sizes) >= 0
    except (LookupError, TypeError, ValueError):
        is_valid = False
    if not is_valid:
        raise NotWhole(f"malformed header entry of tensor {name!r}")
    if len(sizes) > 66 or max(sizes) >= MAX_NUMBERS or prod([size or 1 for size in entry.shape]) >= MAX_NUMBERS:
        raise NotWhole(f"the tensor {name!r} is too large")
    if entry.end - entry.start != prod(entry.shape) * entry.dtype.itemsize:
        raise NotWhole(f"the shape of the tensor {name!r} does not match its offsets")
    return entry


def _tensor(file: FileIO | BytesIO, start: int, entry: TensorEntry) -> Tensor:
    file.seek(start + entry.start)
    try:
        with lasting():
            tensor = torch.empty(entry.shape, dtype=entry.dtype)
    except RuntimeError as error:  # the only error of torch where the system gives no memory
        raise MemoryError(str(error)) from None
    _fill(file, raw_bytes(tensor), f"tensor {entry.name!r}")
    return tensor


def _fill(file: FileIO | BytesIO, data: bytearray | memoryview, what: str) -> bytearray | memoryview:
    """Read until the data are full, in as many pieces as the system gives."""
    view, done = memoryview(data), 0
    while done < len(view):
        more = file.readinto(view[done:])
        if not more:
            raise NotWhole(f"{what} ends after {done} of {len(view)} bytes")
        done += more
    return data


def read_header(path: Place) -> tuple[bytes, int]:
    """Return the bytes of a file's header and the size of the file; `NotWhole` if it has none."""
    with _open(path) as file:
        size = os.fstat(file.fileno()).st_size
        return _read_header(file, size), size


def parse_metadata(raw: bytes, size: int) -> Metadata:
    """Return the metadata of a header, of a file of this size; `NotWhole` if it is not one."""
    return _parse_header(raw, size - 8 - len(raw))[0]


def read_metadata(path: Place) -> Metadata:
    """Return the metadata of a file of tensors, without verifying them; none if it is not such a file."""
    try:
        return parse_metadata(*read_header(path))
    except (FileNotFoundError, NotWhole):
        return {}


def kind_of(path: Place) -> str | None:
    """Return the kind of a file that Carving wrote, one of `KINDS`; None for other files."""
    try:
        format = read_metadata(path).get("format", "")
    except OSError as error:
        raise reworded(error, f"{shown(path)} could not be read ({shown(error)})") from error
    return next((kind for kind, start in KINDS.items() if format.startswith(start)), None)


# Writing


def check_replaceable(path: Place, kind: str, force: bool | None = False) -> None:
    """Raise an error if writing a file of this kind would overwrite a file of another kind, or a read-only one.

    A free name, an empty file and a file that Carving wrote as the same kind may be written. A "file of pairs" may
    overwrite all files that Carving did not write. Folders, pipes and devices are never overwritten.

    Args:
        path: The file to write.
        kind: One of `KINDS`, or "file of pairs".
        force: Allow overwriting a file of another kind, or a read-only one. None: not allowed, and not suggested by
            the message.

    Raises:
        BadValue: If the file is of another kind.
        OSError: If it is read-only, or cannot be written (`check_target`).
    """
    check_choice("kind", kind, (*KINDS, PAIRS))
    check_target(path)
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(there.st_mode):
        raise BadValue(f"{shown(path)} is a pipe or a device and cannot be replaced. Choose another path.")
    if force:
        return
    forcing = "" if force is None else ", or pass force=True to overwrite it"
    if not there.st_mode & 0o222 or not os.access(path, os.W_OK):
        raise PermissionError(f"{shown(path)} is read-only. Make it writable, choose another path{forcing}.")
    found = kind_of(path) if there.st_size else kind
    if (found or PAIRS) != kind:
        what = f"is {_with_article(found)}" if found else "was not written by Carving"
        raise BadValue(
            f"{shown(path)} {what}, so it is not replaced by {_with_article(kind)}. Choose another path{forcing}."
        )


def _with_article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


@contextlib.contextmanager
def guarded(path: Place, kind: str, force: bool = False) -> Iterator[None]:
    """Hold the write lock of a file, under which it is checked, once, that this kind may be written there."""
    with locked(path, is_optional=True):
        check_replaceable(path, kind, force)
        yield


def write_tensors(path: Place, kind: str, tensors: Tensors, metadata: Metadata, force: bool = False) -> None:
    """Write a file of tensors of this kind, with a checksum, atomically; raises as `check_replaceable` does."""
    with guarded(path, kind, force):
        replace_tensors(path, tensors, metadata | {"checksum": checksum(tensors, metadata)})


def replace_tensors(path: Place, tensors: Tensors, metadata: Metadata) -> bool:
    """Put a file of tensors in the path's place, within `guarded`; whether the folder was flushed, too."""
    return write_atomically(path, lambda file: pack_tensors(file, tensors, metadata))


def pack_tensors(file: BinaryIO, tensors: Tensors, metadata: Metadata) -> None:
    """Write tensors and metadata to an open file, from where they lie: there may be no room for a copy."""
    header: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))}
    order = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))  # so that numbers are aligned
    start = 0
    for name in order:
        tensor, end = tensors[name], start + tensors[name].nbytes
        header[name] = dict(dtype=NAMES[tensor.dtype], shape=list(tensor.shape), data_offsets=[start, end])
        start = end
    raw = _pack_header(header)
    file.write(len(raw).to_bytes(8, "little") + raw)
    for name in order:
        file.write(raw_bytes(tensors[name]))


def _pack_header(header: dict[str, Any]) -> bytes:
    """Encode a header: without spaces, but for those that fill its last eight bytes."""
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return text + b" " * (-len(text) % 8)


# Checksums and bytes


def check_sum(metadata: Metadata, tensors: Tensors) -> None:
    """Raise `NotWhole` if the checksum in the metadata is not that of the tensors and the metadata."""
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
    """Return the bytes of a tensor where they lie."""
    if not tensor.numel():
        return memoryview(b"")  # torch gives no bytes of some that are empty
    return tensor.contiguous().view(-1).view(torch.uint8).numpy().data


def all_finite(tensor: Tensor) -> bool:
    """Whether a tensor has neither infinity nor not-a-number; a large one is not copied for that."""
    parts = tensor.detach().reshape(-1).split(CHUNK)
    return all(bool(torch.isfinite(part).all()) for part in parts)
