"""Atomic writing: a file is written beside its place, flushed, and renamed, so that it is there whole or not at all."""

import contextlib
import os
import stat
import warnings
from collections.abc import Callable
from pathlib import Path as FilePath
from typing import BinaryIO
from uuid import uuid4

from carving.storage.locks import Place, is_orphaned, lock_open_file, reworded, shown, unlock_open_file

STALE = 3600  # seconds after which an unfinished file is removed where there are no locks to tell who is alive


class NotFlushed(UserWarning):
    """Warning that a file was written, but may be lost in a power failure, because its folder could not be flushed."""


def write_atomically(path: Place, write: Callable[[BinaryIO], None], like: Place | None = None) -> bool:
    """Write a file beside the path, flush it to disk, and put it in the path's place.

    A process that is killed meanwhile leaves `.carving-*.part` beside it, which hinders nobody and is removed by the
    next save of any file in that folder; a part is locked as long as its process lives, so that no other removes it.

    Args:
        path: The file.
        write: Called with the open file.
        like: The file whose permissions the new one gets; by default the file that is replaced.

    Returns:
        Whether the folder was flushed, so that the file's name is on disk, too.
    """
    target = FilePath(os.path.realpath(path))  # a link stays one
    remove_parts(target.parent)
    model = target if like is None else FilePath(like)
    mode = stat.S_IMODE(model.stat().st_mode) if model.exists() else None
    try:
        part, file = _create_part(target.parent, 0o666 if mode is None else 0o600)
        try:
            write(file)
            file.flush()
            if mode is not None:
                os.chmod(part, mode)
            os.fsync(file.fileno())
            if os.name == "nt":  # where nothing that is open can be moved
                file.close()
            os.replace(part, target)  # before it is closed, when others would take it for orphaned
        except BaseException:
            with contextlib.suppress(OSError):  # what went wrong first is what counts; the next save removes it
                part.unlink(missing_ok=True)
            raise
        finally:
            with contextlib.suppress(OSError):  # what counts is on disk, or was raised already
                if not file.closed:
                    unlock_open_file(file.fileno())
                file.close()
    except OSError as error:
        raise reworded(error, f"{shown(path)} could not be written ({shown(error)}). Nothing was changed.") from error
    return flush_folder(target)


def _create_part(folder: FilePath, mode: int) -> tuple[FilePath, BinaryIO]:
    """Create a file of our own in the folder, and lock it."""
    while True:
        part = folder / f".carving-{uuid4().hex}.part"
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        if lock_open_file(descriptor, part):
            return part, os.fdopen(descriptor, "wb")
        os.close(descriptor)  # removed by another process between two calls of ours


def remove_parts(folder: FilePath) -> None:
    """Remove the unfinished files that killed processes left in a folder."""
    for left in folder.glob(f".carving-{'[0-9a-f]' * 32}.part"):
        with contextlib.suppress(OSError), open(left, "rb+") as part:  # its process may be done with it just now
            if is_orphaned(part.fileno(), STALE):
                left.unlink()  # while we have its lock: its writer, had it just begun, sees that it is gone


def flush_folder(target: FilePath) -> bool:
    """Flush the folder of a file, and with it the file's name, to disk; warn and return False if that fails."""
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
