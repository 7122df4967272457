"""Memories in files: one safetensors file each, written whole or not at all.

A file holds the tensor `memory` (complex numbers as pairs of reals), `vocabulary` (the leaves' canonical bytes, one
after the other), `counts` (how often each was stored), `fillers` where they were trained, and in its metadata the
scheme with its parameters and a checksum over all of it.
"""

import contextlib
import glob
import hashlib
import json
import os
import shutil
import stat
import struct
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any
from uuid import uuid4

import torch
from filelock import FileLock
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from carving.draws import STREAM
from carving.errors import BadType, BadValue
from carving.scheme import Scheme
from carving.schemes import make
from carving.symbols import Leaf, canonical, parse_labels

STALE = 3600  # seconds after which a file that was never finished is removed
VERSION = 2  # of the file; what labels give has a version of its own
DTYPES = {str(dtype)[6:]: dtype for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)}


class BadFile(BadValue):
    """A file that is no memory, is damaged, or of a later version."""


@dataclass(frozen=True)
class Contents:
    """What a file holds."""

    scheme: Scheme
    tensor: Tensor
    vocabulary: list[Leaf]
    counts: Tensor
    fillers: Tensor | None = None  # of the first leaves, where they were trained


def check_target(file: str | os.PathLike[str]) -> None:
    """Refuse a place where no file can be written, before the work that would fill it."""
    path = FilePath(file)
    folder = FilePath(os.path.realpath(path)).parent  # a link's file lies elsewhere
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file in a folder that exists")
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{path} lies in a folder that does not exist: {folder}; name a file in a folder that exists"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"{path} lies in a folder where you may not write: {folder}; name another")


def check_folder(folder: str | os.PathLike[str]) -> None:
    """Refuse a place where no folder can be made or written to, before the work that would fill it."""
    path = FilePath(folder)
    there = next(above for above in (path, *path.absolute().parents) if above.exists())
    if not there.is_dir():
        raise NotADirectoryError(f"{path} must be a folder, but {there} is a file; name another")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(f"you may not write in {there}; name another folder than {path}")


def lock_for(file: str | os.PathLike[str]) -> FileLock:
    """A user's lock for those who write the file, by whatever name or link; a place for no file is refused.

    It lies among temporary files, so that nothing is left beside the file or beside a name that was mistyped.
    """
    check_target(file)
    name = hashlib.sha256(os.fsencode(os.path.realpath(file))).hexdigest()
    return FileLock(_lock_folder() / f"{name}.lock")


def _lock_folder() -> FilePath:
    """The user's own folder of locks: that of another user would let them stop us, or lead us elsewhere."""
    user = os.getuid() if hasattr(os, "getuid") else "user"
    folder = FilePath(tempfile.gettempdir()) / f"carving-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    seen = folder.lstat()
    if hasattr(os, "getuid") and (not stat.S_ISDIR(seen.st_mode) or seen.st_uid != user or seen.st_mode & 0o077):
        raise PermissionError(f"{folder} must be a folder of your own, closed to others, for locks; remove it")
    return folder


def write(path: str | os.PathLike[str], contents: Contents, dtype: torch.dtype | None = None) -> None:
    """Write a file: killed at any moment, the old one or the new one is there whole."""
    scheme, tensor, counts, fillers = contents.scheme, contents.tensor, contents.counts, contents.fillers
    if dtype is not None and dtype not in DTYPES.values():
        raise BadType(f"dtype must be one of {', '.join(DTYPES)} of torch, got {dtype!r}")
    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    kept = real.detach().to("cpu", dtype or scheme.dtype)
    if not bool(torch.isfinite(kept).all()):
        raise BadValue(f"the memory holds numbers that {kept.dtype} cannot; keep it in torch.float32")
    names = b"".join(map(canonical, contents.vocabulary))
    tensors = {
        "memory": kept.contiguous(),
        "vocabulary": torch.frombuffer(bytearray(names), dtype=torch.uint8)
        if names
        else torch.zeros(0, dtype=torch.uint8),
        "counts": counts.detach().to("cpu", torch.float64).contiguous(),
    }
    if fillers is not None:
        plain = torch.view_as_real(fillers) if fillers.is_complex() else fillers
        tensors["fillers"] = plain.detach().cpu().contiguous()
    metadata = {
        "format": "carving memory",
        "version": str(VERSION),
        "stream": STREAM.decode().strip(),
        "scheme": json.dumps(identity(scheme), sort_keys=True),
        "dtype": str(scheme.dtype)[6:],
        "pairs": str(round(float(counts.clamp_min(0).sum()))),
        "energy": repr(float(kept.double().square().sum())),
    }
    metadata["checksum"] = checksum(tensors, metadata)
    replace_whole(FilePath(path), tensors, metadata)


def read(path: str | os.PathLike[str]) -> Contents:
    """What a file holds; nothing is allocated that its size does not warrant."""
    path = FilePath(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}" if not path.exists() else f"{path} is not a file")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            check_kind(path, metadata)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no dict
    except SafetensorError as error:
        raise BadFile(
            f"{path} is no whole memory file ({error}); it was cut off or damaged, or is of another kind: take a copy"
        ) from None
    try:
        return _contents(metadata, tensors)
    except (KeyError, TypeError, ValueError, RuntimeError, OverflowError, struct.error) as error:
        raise BadFile(f"{path} is damaged: {error}; take a copy of it") from None


def _contents(metadata: dict[str, str], tensors: dict[str, Tensor]) -> Contents:
    if metadata.get("checksum") != checksum(tensors, metadata):
        raise BadValue("its checksum does not match what it holds")
    memory, counts, fillers = tensors["memory"], tensors["counts"], tensors.get("fillers")
    if memory.dtype not in DTYPES.values() or counts.dtype != torch.float64:
        raise BadValue(f"its tensors are of {memory.dtype} and {counts.dtype}")
    scheme = _scheme(_parameters(metadata), memory, DTYPES[metadata["dtype"]])
    vocabulary = parse_labels(tensors["vocabulary"].numpy().tobytes())
    if counts.shape != (len(vocabulary),) or len(set(map(canonical, vocabulary))) != len(vocabulary):
        raise BadValue(
            f"it holds {len(vocabulary)} leaves, not all different, or counts of shape {tuple(counts.shape)}"
        )
    trained = None if fillers is None else _trained(scheme, fillers, len(vocabulary))
    contents = Contents(scheme, _tensor(scheme, memory), vocabulary, counts, trained)
    for name, numbers in (("memory", contents.tensor), ("counts", counts), ("fillers", trained)):
        if numbers is not None and not bool(torch.isfinite(numbers).all()):
            raise BadValue(f"its {name} hold not-a-number or infinity")
    return contents


def _tensor(scheme: Scheme, memory: Tensor) -> Tensor:
    """The memory in the scheme's own numbers."""
    shape = (*scheme.memory_shape, 2) if scheme.memory_dtype.is_complex else scheme.memory_shape
    if tuple(memory.shape) != shape:
        raise BadValue(f"its scheme {scheme} wants a tensor of shape {shape}, it holds {tuple(memory.shape)}")
    tensor = memory.to(scheme.dtype)
    return torch.view_as_complex(tensor) if scheme.memory_dtype.is_complex else tensor


def _trained(scheme: Scheme, fillers: Tensor, leaves: int) -> Tensor:
    """The trained fillers of the first leaves."""
    if scheme.memory_dtype.is_complex and fillers.is_floating_point():
        fillers = torch.view_as_complex(fillers)
    if fillers.shape[1:] != scheme.filler_shape or not 0 < len(fillers) <= leaves:
        raise BadValue(f"its fillers have shape {tuple(fillers.shape)} for {leaves} leaves")
    return fillers


def _parameters(metadata: dict[str, str]) -> dict[str, Any]:
    """What a file says of its scheme; in the first version there was no choice of a basis."""
    parameters: dict[str, Any] = json.loads(metadata["scheme"])
    if metadata["version"] == "1" and parameters.get("name") == "OSC":
        parameters.setdefault("basis", "gaussian")
    return parameters


def _scheme(parameters: dict[str, Any], memory: Tensor, dtype: torch.dtype) -> Scheme:
    """The scheme that a file speaks of; some hold tables as large as their parameters, so these are looked at first."""
    for name, value in parameters.items():
        whole = isinstance(value, int) and not isinstance(value, bool)
        if name not in ("seed", "r") and whole and value > 2 * memory.numel() + 64:
            raise BadValue(f"it speaks of {name}={value}, but its tensor has {memory.numel()} numbers")
    scheme = make(**parameters, dtype=dtype)
    if identity(scheme) != parameters:
        raise BadValue(f"its parameters {sorted(parameters)} are not those of {scheme}")
    return scheme


def identity(scheme: Scheme) -> dict[str, Any]:
    """The scheme's name and parameters: what `make` makes it from again."""
    return {"name": scheme.name} | scheme.parameters


def check_kind(path: FilePath, metadata: dict[str, str]) -> None:
    """Refuse a file of another kind or of a later version."""
    if metadata.get("format") != "carving memory":
        raise BadFile(f"{path} is a safetensors file, but no memory of Carving; `carving store` makes one")
    version, stream = metadata.get("version", ""), metadata.get("stream")
    known = version in [str(number) for number in range(1, VERSION + 1)]
    if not known or stream != STREAM.decode().strip():
        raise BadFile(
            f"{path} is of version {version} ({stream}), this is Carving for version {VERSION} "
            f"({STREAM.decode().strip()}); a later Carving reads it"
        )


def checksum(tensors: dict[str, Tensor], metadata: dict[str, str]) -> str:
    """SHA-256 over the tensors and what the metadata says about them."""
    digest = hashlib.sha256()
    said = {key: value for key, value in metadata.items() if key != "checksum"}
    digest.update(json.dumps(said, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def replace_whole(path: FilePath, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write a safetensors file beside the path, flush it to disk, and put it in the path's place."""
    check_target(path)
    target = path.resolve()  # a link stays one
    for left in target.parent.glob(f".{glob.escape(target.name)}.{'[0-9a-f]' * 32}"):
        with contextlib.suppress(FileNotFoundError):  # another process may be done with it just now
            if time.time() - left.stat().st_mtime > STALE:  # of a process that was killed
                shutil.rmtree(left, ignore_errors=True)
    # In a folder of its own: safetensors writes to a file of a name that it chooses, and moves it.
    aside = target.with_name(f".{target.name}.{uuid4().hex}")
    aside.mkdir()
    try:
        whole = aside / target.name
        whole.touch()
        mode = (target if target.exists() else whole).stat().st_mode & 0o7777
        save_file(tensors, whole, metadata)  # from where they lie: there may be no room for a copy
        with open(whole, "rb+") as file:
            os.fsync(file.fileno())
        os.chmod(whole, mode)
        os.replace(whole, target)
    except SafetensorError as error:
        raise OSError(f"{path} could not be written: {error}") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    if hasattr(os, "O_DIRECTORY"):  # the name, too, is on disk only when the folder is
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
