"""Where files are written: what a place must be, who writes there now, and names as people may be shown them."""

import contextlib
import errno
import hashlib
import os
import stat
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path as FilePath

from filelock import FileLock

try:
    import fcntl
except ImportError:  # Windows, where filelock has other means
    fcntl = None  # type: ignore[assignment]

Place = str | os.PathLike[str]

LONGEST = 400  # characters of a file's own words that a message shows
BUSY = (errno.EACCES, errno.EAGAIN)  # what systems say of a lock that another one has
POLL = 0.005  # seconds after which who waits for a lock looks again


class NotLocked(UserWarning):
    """A file is written, but two who write it at once cannot wait for each other: who is last wins."""


def shown(text: object) -> str:
    """A name, or words that a file says, for a message: in one line, without what a terminal would obey."""
    plain = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in str(text))
    return plain if len(plain) <= LONGEST else f"{plain[:LONGEST]}..."


def check_target(file: Place) -> None:
    """Refuse a place where no file can be written, before the work that would fill it."""
    path = FilePath(file)
    folder = FilePath(os.path.realpath(path)).parent  # a link's file lies elsewhere
    if path.is_dir():
        raise IsADirectoryError(f"{shown(path)} is a folder; name a file in a folder that exists")
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{shown(path)} lies in a folder that does not exist: {shown(folder)}; name a file in a folder that exists"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"{shown(path)} lies in a folder where you may not write: {shown(folder)}; name another")


def check_folder(folder: Place) -> None:
    """Refuse a place where no folder can be made or written to, before the work that would fill it."""
    path = FilePath(folder)
    there = next(above for above in (path, *path.absolute().parents) if above.exists())
    if not there.is_dir():
        raise NotADirectoryError(f"{shown(path)} must be a folder, but {shown(there)} is a file; name another")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(f"you may not write in {shown(there)}; name another folder than {shown(path)}")


def lock_for(file: Place) -> FileLock:
    """The lock of those who write the file, by whatever name or symbolic link; a place for no file is refused.

    It is named after the real file and lies in a folder of the user's own, `/tmp/carving-UID` whatever TMPDIR says (or
    below `CARVING_LOCKS`, which must then be the same for all who write), so that nothing is left beside the file. The
    system lets go of it when its process ends, however it ends. It holds between processes of one user on one machine.
    Two users, machines or containers that write one file do not wait for each other: the file is always whole, but who
    saves last wins, and what the other stored meanwhile is lost. Readers need no lock. A thread that has it may take it
    again, as `save` does.
    """
    check_target(file)
    name = hashlib.sha256(os.fsencode(os.path.realpath(file))).hexdigest()
    return FileLock(_lock_folder() / f"{name}.lock", is_singleton=True)


@contextlib.contextmanager
def turn(file: Place) -> Iterator[None]:
    """Where only one at a time writes the file; where there are no locks, whoever comes, which is told."""
    check_target(file)
    lock: FileLock | None = None
    try:
        lock = lock_for(file)
    except OSError as error:
        warnings.warn(f"{shown(file)} is written without waiting for others: {error}", NotLocked, stacklevel=3)
    with contextlib.nullcontext() if lock is None else lock.acquire(poll_interval=POLL):
        yield


def _lock_folder() -> FilePath:
    """The user's own folder of locks: that of another user would let them stop us, or lead us elsewhere."""
    user = os.getuid() if hasattr(os, "getuid") else "user"
    place = os.environ.get("CARVING_LOCKS") or ("/tmp" if os.access("/tmp", os.W_OK) else tempfile.gettempdir())
    folder = FilePath(place) / f"carving-{user}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        failed = OSError(
            f"there is no place for locks: {shown(folder)} cannot be made ({error.strerror}); set CARVING_LOCKS to a "
            "folder that is there, on a local disk"
        )
        failed.errno = error.errno
        raise failed from None
    seen = folder.lstat()
    if hasattr(os, "getuid") and (not stat.S_ISDIR(seen.st_mode) or seen.st_uid != user or seen.st_mode & 0o077):
        raise PermissionError(f"{shown(folder)} must be a folder of your own, closed to others, for locks; remove it")
    _check_locks(folder)
    return folder


def _check_locks(folder: FilePath) -> None:
    """Refuse a file system without locks: on one, some versions of filelock wait for ever."""
    if fcntl is None:
        return
    with open(folder / "trial", "ab") as trial:
        try:
            fcntl.flock(trial, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            raise OSError(
                f"{shown(folder)} lies on a file system without locks ({error.strerror}), so that two commands could "
                "overwrite each other's work; set CARVING_LOCKS to a folder on a local disk"
            ) from None


def own(descriptor: int) -> bool:
    """Lock an unfinished file, so that others see that its process lives; False if one has just removed it."""
    if fcntl is not None:
        with contextlib.suppress(OSError):  # a file system without locks, where only its age tells
            fcntl.flock(descriptor, fcntl.LOCK_EX)
    return os.fstat(descriptor).st_nlink > 0


def abandoned(descriptor: int, seconds: float) -> bool:
    """Whether the process that wrote an unfinished file is dead; without locks, whether the file is so old."""
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in BUSY:
                return False
        else:
            return True
    return time.time() - os.fstat(descriptor).st_mtime > seconds
