"""Serving the explorer on this machine: a free port, an address with a token, and the way of the browser there."""

import secrets
import socket
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path as FilePath
from tempfile import TemporaryDirectory
from threading import Thread, Timer
from typing import Any

from carving.errors import BadValue
from carving.explore.exhibit import Exhibit, Gallery
from carving.explore.server import Server
from carving.extras import load
from carving.memory.gauge import gauge
from carving.memory.scores import scores

LOOPBACK = "127.0.0.1"
SOON = 0.5  # seconds until the server listens
SLOW = 10.0  # seconds for the head of a request to arrive, once somebody is connected
CONNECTIONS = 64


def serve(exhibit: Exhibit, port: int = 0, browser: bool = True, on_address: Callable[[str], None] = print) -> None:
    """Serve an exhibit until somebody stops it (Ctrl-C); the address is told, and opened in the browser."""
    load("uvicorn")
    listening = listen(port)
    port, token = listening.getsockname()[1], secrets.token_urlsafe(16)
    server = Server(Gallery(exhibit), token, (f"{LOOPBACK}:{port}", f"localhost:{port}"))
    address = f"http://{LOOPBACK}:{port}/{token}/"
    on_address(address)
    Thread(target=warm, args=[exhibit], daemon=True).start()
    with redirect(address) if browser else nullcontext() as page:
        if page is not None:
            Timer(SOON, webbrowser.open, [page.as_uri()]).start()
        runner(server).run(sockets=[listening])


@contextmanager
def redirect(address: str) -> Iterator[FilePath]:
    """Give a file that leads to an address, for its user alone: everybody can read the command line of a browser."""
    with TemporaryDirectory(prefix="carving-explore-") as folder:  # of mode 0700
        page = FilePath(folder) / "explorer.html"
        page.touch(0o600)
        page.write_text(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={address}"><a href="{address}">Open</a>'
        )
        yield page


def runner(server: Server) -> Any:
    """What runs the application: uvicorn, with limits."""
    uvicorn = load("uvicorn")
    how = dict(lifespan="off", log_level="critical", access_log=False, server_header=False)
    limits = dict(limit_concurrency=CONNECTIONS, timeout_keep_alive=30, timeout_graceful_shutdown=2)
    return uvicorn.Server(uvicorn.Config(server, ws="none", http=_impatient(), **how, **limits))


def _impatient() -> type:
    """uvicorn's protocol, which alone would wait for ever for the head of a request."""
    patient: Any = load("uvicorn.protocols.http.h11_impl").H11Protocol

    class Impatient(patient):  # type: ignore[misc]
        late: Any = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.wait()

        def wait(self) -> None:
            """Close in a while, unless a request has come."""
            if self.cycle is not None and not self.cycle.response_complete:
                if self.late is not None:
                    self.late.cancel()
                self.late = None
            elif self.late is None:
                self.late = self.loop.call_later(SLOW, self.transport.abort)

    return Impatient


def warm(exhibit: Exhibit) -> None:
    """Make what the first question needs, so that nobody waits for it: fillers of all leaves, and the gauge."""
    memory = exhibit.memory
    if len(memory.vocabulary):
        scores(memory, ("",))
    gauge(memory)


def listen(port: int) -> socket.socket:
    """A socket of the loopback address; port 0 is any that is free."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
    except (OSError, OverflowError):
        listening.close()
        raise BadValue(f"port {port} is taken or not allowed; leave --port out, and a free one is found") from None
    listening.listen(128)
    return listening
