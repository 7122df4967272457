"""Atomic writing of files, and checks that a file of another kind is not overwritten."""

import contextlib
import os
import stat
import warnings
from collections.abc import Callable
from pathlib import Path as FilePath
from typing import BinaryIO
from uuid import uuid4

from carving.errors import BadValue
from carving.storage.locks import Place, abandoned, check_target, disown, own, shown
from carving.storage.tensorfile import KINDS, Metadata, Tensors, kind_of, write_tensors
from carving.validate import check_choice

STALE = 3600  # seconds after which an unfinished file is removed where there are no locks to tell who is alive
PAIRS = "file of pairs"  # whatever is none of ours may be one


class NotFlushed(UserWarning):
    """Warning that a file was written, but may be lost in a power failure, because its folder could not be flushed."""


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
        what = f"is {_a(found)}" if found else "was not written by Carving"
        raise BadValue(f"{shown(path)} {what}, so it is not replaced by {_a(kind)}. Choose another path{forcing}.")


def _a(kind: str) -> str:
    """Return the kind with its article, in prose."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def replace_whole(path: Place, tensors: Tensors, metadata: Metadata) -> bool:
    """Put a file of tensors in the path's place; whether its name, too, is known to be on disk (see `put_whole`)."""
    return put_whole(path, lambda file: write_tensors(file, tensors, metadata))


def put_whole(path: Place, write: Callable[[BinaryIO], None], like: Place | None = None) -> bool:
    """Write a file beside the path, flush it to disk, and put it in the path's place; whether the folder was flushed.

    It gets the permissions of what was there before, or of a file that it is to be `like`.

    A process that is killed meanwhile values `.carving-*.part` beside it, which hinders nobody and is removed by the
    next save of any file in that folder; a part is locked as long as its process lives, so that no other removes it.
    """
    check_target(path)
    target = FilePath(os.path.realpath(path))  # a link stays one
    remove_parts(target.parent)
    model = target if like is None else FilePath(like)
    mode = stat.S_IMODE(model.stat().st_mode) if model.exists() else None
    try:
        part, file = _part(target.parent, 0o666 if mode is None else 0o600)
        try:
            write(file)
            file.flush()
            if mode is not None:
                os.chmod(part, mode)
            os.fsync(file.fileno())
            if os.name == "nt":  # where nothing that is open can be moved
                file.close()
            os.replace(part, target)  # before it is closed, when others would take it for abandoned
        except BaseException:
            with contextlib.suppress(OSError):  # what went wrong first is what counts; the next save removes it
                part.unlink(missing_ok=True)
            raise
        finally:
            with contextlib.suppress(OSError):  # what counts is on disk, or told already
                if not file.closed:
                    disown(file.fileno())
                file.close()
    except OSError as error:
        failed = OSError(f"{shown(path)} could not be written ({shown(error)}). Nothing was changed.")
        failed.errno = error.errno
        raise failed from error
    return flush_folder(target)


def _part(folder: FilePath, mode: int) -> tuple[FilePath, BinaryIO]:
    """A new file in the folder, locked by us."""
    while True:
        part = folder / f".carving-{uuid4().hex}.part"
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        if own(descriptor, part):
            return part, os.fdopen(descriptor, "wb")
        os.close(descriptor)  # removed by another process between two calls of ours


def remove_parts(folder: FilePath) -> None:
    """Remove what processes that were killed left in a folder."""
    for left in folder.glob(f".carving-{'[0-9a-f]' * 32}.part"):
        with contextlib.suppress(OSError), open(left, "rb+") as part:  # its process may be done with it just now
            if abandoned(part.fileno(), STALE):
                left.unlink()  # while we have its lock: its writer, had it just begun, sees that it is gone


def flush_folder(target: FilePath) -> bool:
    """The name, too, is on disk only when the folder is; that it is not yet does not undo what is done."""
    if not hasattr(os, "O_DIRECTORY"):
        return True
    try:
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        warnings.warn(
            f"{shown(target)} was written, but its folder could not be flushed ({error.strerror or error}). If the "
            "power fails within the next seconds, the previous file may come back.",
            NotFlushed,
            stacklevel=5,
        )
        return False
    return True
