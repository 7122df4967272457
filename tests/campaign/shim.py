"""A shim between a program and the files below a folder: it writes down what is done to them, and lets a call fail.

What Python does to files goes through `os` and `open`, which are replaced for a while. That nothing else was done is
seen afterwards: what was written down, done again, must give the folder as it is (`Shim.check`).
"""

import builtins
import contextlib
import errno
import fcntl
import io
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from campaign.crashes import (
    Call,
    Chmod,
    Create,
    Drop,
    File,
    Folder,
    Move,
    Node,
    Remove,
    Sync,
    Truncate,
    Write,
    after,
    tree_of,
)

OURS = (
    *("open", "close", "write", "fsync", "fdatasync", "replace", "rename", "unlink", "remove", "rmdir", "mkdir"),
    *("truncate", "ftruncate", "chmod", "fchmod", "link", "symlink", "pwrite", "writev"),
)
SHORT, KILL, END = "short", "kill", "end"
LASTING = (errno.ENOSPC, errno.EROFS)  # a disk that is full or read-only stays so; what else fails, fails once
GROWING = ("create", "write", "mkdir", "fsync")  # what a full disk refuses


class Fault(NamedTuple):
    """The call, counted from 0, that fails, and how: with an errno, by half (SHORT), or by the end (KILL).

    END is a kill that this process survives: that call and all after it raise `Ended`, and do nothing.
    """

    at: int
    how: int | str


class Ended(BaseException):
    """The process would be dead by now."""


class Shim:
    """What is done to the files below a folder, call by call; one of the calls may fail."""

    def __init__(self, folder: Path, fault: Fault | None = None) -> None:
        self.folder, self.fault = os.path.realpath(folder), fault
        self.begun = tree_of(Path(self.folder))
        self.log: list[Call] = []
        self.calls: list[str] = []  # the kinds of all that could fail
        self.reads = True  # whether reading may fail, and counts
        self.nodes = self.begun.names()  # by their names as they are now
        self.held: dict[int, int] = {}  # nodes by open descriptors
        self.real = {name: getattr(os, name) for name in OURS} | {"stream": io.open}

    @contextlib.contextmanager
    def watching(self) -> Iterator["Shim"]:
        """Stand between the program and its files for a while."""
        with contextlib.ExitStack() as stack:
            for name in OURS:
                stack.enter_context(mock.patch.object(os, name, getattr(self, name)))
            for module in (io, builtins):
                stack.enter_context(mock.patch.object(module, "open", self.stream))
            yield self

    def check(self) -> None:
        """Refuse to go on if something was done to the folder that is not written down."""
        there, told = tree_of(Path(self.folder)).contents(), after(self.begun, self.log).contents()
        assert there == told, f"the shim missed something: {[n for n in there | told if there.get(n) != told.get(n)]}"

    # What a call is about, and whether it fails

    def name(self, path: Any) -> str | None:
        """The name below the folder, None if it lies elsewhere."""
        if isinstance(path, int):
            return None
        name = os.path.abspath(os.fsdecode(path))
        return os.path.relpath(name, self.folder) if f"{name}/".startswith(f"{self.folder}/") else None

    def node(self, what: Any) -> int | None:
        """The node of a descriptor or a path, None if it lies elsewhere."""
        return self.held.get(what) if isinstance(what, int) else self.nodes.get(self.name(what) or "")

    def within(self, name: str) -> tuple[int, str]:
        """The node of the folder that a name lies in, and the name there."""
        above, own = os.path.split(name)
        return self.nodes[above or "."], own

    def fails(self, kind: str) -> bool:
        """Count a call; raise if it is to fail; True if it is to do half."""
        if kind == "read" and not self.reads:
            return False
        number = len(self.calls)
        self.calls.append(kind)
        if self.fault is not None and self.fault.how == END and number >= self.fault.at:
            raise Ended
        if self.fault is None or number < self.fault.at or (number > self.fault.at and self.fault.how not in LASTING):
            return False
        if isinstance(self.fault.how, str):
            if self.fault.how == KILL and kind != "write":
                os.kill(os.getpid(), signal.SIGKILL)
            return kind == "write"
        if (kind == "read" and self.fault.how != errno.EIO) or (self.fault.how == errno.ENOSPC and kind not in GROWING):
            return False
        raise OSError(self.fault.how, os.strerror(self.fault.how))

    def made(self, name: str, what: Node) -> None:
        """Write down that there is something new."""
        folder, own = self.within(name)
        number = self.nodes[name] = len(self.begun.nodes) + sum(isinstance(call, Create) for call in self.log)
        self.log.append(Create(folder, own, number, what))

    # Names

    def open(self, path: Any, flags: int, mode: int = 0o777, **options: Any) -> int:
        name = self.name(path)
        if name is None:
            return self.real["open"](path, flags, mode, **options)
        known = name in self.nodes
        writes = flags & (os.O_WRONLY | os.O_RDWR)
        self.fails("create" if flags & os.O_CREAT and not known else "open" if writes else "read")
        descriptor = self.real["open"](path, flags, mode, **options)
        if not known:
            self.made(name, File(mode=os.fstat(descriptor).st_mode & 0o777))
        elif flags & os.O_TRUNC:
            self.log.append(Truncate(self.nodes[name], 0))
        self.held[descriptor] = self.nodes[name]
        return descriptor

    def close(self, descriptor: int) -> None:
        self.held.pop(descriptor, None)
        self.real["close"](descriptor)

    def replace(self, source: Any, target: Any, **options: Any) -> None:
        old, new = self.name(source), self.name(target)
        assert (old is None) == (new is None), "what comes from elsewhere is not modeled"
        if old is not None:
            self.fails("replace")
        self.real["replace"](source, target, **options)
        if old is not None and new is not None:
            (folder, one), (other, two) = self.within(old), self.within(new)
            assert folder == other, "what comes from another folder is not modeled"
            self.nodes[new] = self.nodes.pop(old)
            self.log.append(Move(folder, one, two))

    rename = replace

    def unlink(self, path: Any, **options: Any) -> None:
        self.removed("unlink", path, options)

    remove = unlink

    def rmdir(self, path: Any, **options: Any) -> None:
        self.removed("rmdir", path, options)

    def removed(self, how: str, path: Any, options: dict[str, Any]) -> None:
        name = self.name(path)
        if name is not None:
            self.fails(how)
        self.real[how](path, **options)
        if name is not None:
            self.log.append(Remove(*self.within(name)))
            del self.nodes[name]

    def mkdir(self, path: Any, *arguments: Any, **options: Any) -> None:
        name = self.name(path)
        if name is not None:
            self.fails("mkdir")
        self.real["mkdir"](path, *arguments, **options)
        if name is not None:
            self.made(name, Folder())

    def link(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError("the shim does not know this call")

    symlink = pwrite = writev = link

    # Bytes

    def write(self, descriptor: int, data: Any) -> int:
        node = self.held.get(descriptor)
        if node is None:
            return self.real["write"](descriptor, data)
        given = bytes(data)
        half = self.fails("write")
        appends = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND
        at = os.fstat(descriptor).st_size if appends else os.lseek(descriptor, 0, os.SEEK_CUR)
        done = self.real["write"](descriptor, given[: (len(given) + 1) // 2] if half else given)
        if half and self.fault is not None and self.fault.how == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        self.log.append(Write(node, at, given[:done]))
        return done

    def fsync(self, descriptor: int) -> None:
        node = self.held.get(descriptor)
        if node is not None:
            try:
                self.fails("fsync")
            except OSError:
                self.log += [Drop(node)] if isinstance(after(self.begun, self.log).nodes[node], File) else []
                raise
        self.real["fsync"](descriptor)
        if node is not None:
            self.log.append(Sync(node))

    fdatasync = fsync

    def truncate(self, what: Any, length: int) -> None:
        node = self.node(what)
        if node is not None:
            self.fails("truncate")
        self.real["truncate"](what, length)
        if node is not None:
            self.log.append(Truncate(node, length))

    ftruncate = truncate

    def chmod(self, what: Any, mode: int, **options: Any) -> None:
        node = self.node(what)
        if node is not None:
            self.fails("chmod")
        self.real["chmod"](what, mode, **options)
        if node is not None and isinstance(after(self.begun, self.log).nodes[node], File):
            self.log.append(Chmod(node, mode & 0o777))

    fchmod = chmod

    # Streams

    def stream(
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        """`open` as Python has it, on top of the calls above."""
        if self.name(file) is None and self.node(file) is None:
            return self.real["stream"](file, mode, buffering, encoding, errors, newline, closefd, opener)
        plain = mode.replace("b", "").replace("t", "")
        raw = _Raw(self, file, plain, closefd, opener or (lambda path, flags: self.open(path, flags, 0o666)))
        if buffering == 0:
            return raw
        size = buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE
        kind = io.BufferedRandom if "+" in mode else io.BufferedReader if plain == "r" else io.BufferedWriter
        stream = kind(raw, size)
        return stream if "b" in mode else io.TextIOWrapper(stream, encoding, errors, newline, buffering == 1)


class _Raw(io.FileIO):
    """A file whose calls go through the shim."""

    def __init__(self, shim: Shim, file: Any, mode: str, closefd: bool, opener: Any) -> None:
        self.shim = shim
        super().__init__(file, mode, closefd, None if isinstance(file, int) else opener)

    def write(self, data: Any) -> int:
        return self.shim.write(self.fileno(), data)

    def truncate(self, size: int | None = None) -> int:
        size = self.tell() if size is None else size
        self.shim.truncate(self.fileno(), size)
        return size

    def readinto(self, buffer: Any) -> int | None:
        self.shim.fails("read")
        return super().readinto(buffer)

    def readall(self) -> bytes:
        self.shim.fails("read")
        return super().readall()

    def read(self, size: int | None = -1) -> bytes | None:
        self.shim.fails("read")
        return super().read(size)

    def close(self) -> None:
        if not self.closed and self.closefd:
            self.shim.held.pop(self.fileno(), None)
        super().close()
