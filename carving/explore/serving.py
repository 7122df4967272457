"""Serving the explorer on this machine: a free port, a secret address, and opening the browser."""

import secrets
import signal
import socket
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path as FilePath
from tempfile import TemporaryDirectory
from threading import Thread, Timer, current_thread, main_thread
from typing import Any

from carving.errors import BadValue
from carving.explore.scores import score_all
from carving.explore.server import Server
from carving.explore.sessions import MemoryDocument, SessionStore
from carving.explore.statistics import load_curve
from carving.optional import load

LOOPBACK = "127.0.0.1"
BROWSER_DELAY = 0.5  # seconds until the server listens
HEADER_TIMEOUT = 10.0  # seconds for the head of a request to arrive after the connection
MAX_CONNECTIONS = 64


def serve(
    document: MemoryDocument, port: int = 0, browser: bool = True, on_address: Callable[[str], None] = print
) -> None:
    """Serve a document on this machine until Ctrl-C. Needs uvicorn, `pip install 'carving[explore]'`.

    Args:
        document: The memory to show.
        port: The port; 0 takes any free one.
        browser: Open the page in the default browser.
        on_address: Called with the address of the page.

    Raises:
        MissingExtra: If uvicorn is not installed.
        BadValue: If the port is in use or not permitted.
    """
    load("uvicorn")
    listening = listen(port)
    port, token = listening.getsockname()[1], secrets.token_urlsafe(16)
    server = Server(SessionStore(document), token, (f"{LOOPBACK}:{port}", f"localhost:{port}"))
    address = f"http://{LOOPBACK}:{port}/{token}/"
    on_address(address)
    Thread(target=fill_caches, args=[document], daemon=True).start()
    with redirect(address) if browser else nullcontext() as page:
        if page is not None:
            Timer(BROWSER_DELAY, webbrowser.open, [page.as_uri()]).start()
        uvicorn_server(server).run(sockets=[listening])


@contextmanager
def redirect(address: str) -> Iterator[FilePath]:
    """Yield a private file that redirects to an address: other users can read the command line of a browser."""
    folder = TemporaryDirectory(prefix="carving-explore-")  # of mode 0700
    with folder, before_termination(folder.cleanup):
        page = FilePath(folder.name) / "explorer.html"
        page.touch(0o600)
        page.write_text(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={address}"><a href="{address}">Open</a>'
        )
        yield page


@contextmanager
def before_termination(cleanup: Callable[[], None]) -> Iterator[None]:
    """Call a function before SIGTERM ends the process: uvicorn raises it again, and then no `finally` runs."""
    if current_thread() is not main_thread():  # only the main thread can handle signals
        yield
        return

    def terminate(*_: object) -> None:
        cleanup()
        signal.signal(signal.SIGTERM, previous)
        signal.raise_signal(signal.SIGTERM)

    previous = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def uvicorn_server(server: Server) -> Any:
    """Return the uvicorn server of the application, with limits."""
    uvicorn = load("uvicorn")
    settings = dict(lifespan="off", log_level="critical", access_log=False, server_header=False)
    limits = dict(limit_concurrency=MAX_CONNECTIONS, timeout_keep_alive=30, timeout_graceful_shutdown=2)
    return uvicorn.Server(uvicorn.Config(server, ws="none", http=_with_header_timeout(), **settings, **limits))


def _with_header_timeout() -> type:
    """Return uvicorn's protocol with a timeout for the head of a request, which it lacks."""
    base: Any = load("uvicorn.protocols.http.h11_impl").H11Protocol

    class WithHeaderTimeout(base):  # type: ignore[misc]
        timer: Any = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.wait()

        def wait(self) -> None:
            """Close the connection after `HEADER_TIMEOUT` seconds unless a request arrives."""
            if self.cycle is not None and not self.cycle.response_complete:
                if self.timer is not None:
                    self.timer.cancel()
                self.timer = None
            elif self.timer is None:
                self.timer = self.loop.call_later(HEADER_TIMEOUT, self.transport.abort)

    return WithHeaderTimeout


def fill_caches(document: MemoryDocument) -> None:
    """Fill the caches that the first query needs: the codebook and the load curve."""
    memory = document.memory
    if len(memory.vocabulary):
        score_all(memory, ("",))
    load_curve(memory)


def listen(port: int) -> socket.socket:
    """Return a socket of the loopback address; port 0 takes any free one."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
    except (OSError, OverflowError):
        listening.close()
        raise BadValue(f"Port {port} is in use or not permitted. Use port 0 to take any free one.") from None
    listening.listen(128)
    return listening
