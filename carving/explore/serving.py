"""Serving the explorer on this machine: a free port, an address with a token, and the browser."""

import secrets
import socket
import webbrowser
from collections.abc import Callable
from threading import Thread, Timer

from carving.errors import BadValue
from carving.explore.exhibit import Exhibit, Gallery
from carving.explore.server import Server
from carving.extras import load
from carving.memory.gauge import gauge
from carving.memory.scores import scores

LOOPBACK = "127.0.0.1"
SOON = 0.5  # seconds until the server listens
CONNECTIONS = 64


def serve(exhibit: Exhibit, port: int = 0, browser: bool = True, on_address: Callable[[str], None] = print) -> None:
    """Serve an exhibit until somebody stops it (Ctrl-C); the address is told, and opened in the browser."""
    uvicorn = load("uvicorn")
    listening = listen(port)
    port, token = listening.getsockname()[1], secrets.token_urlsafe(16)
    server = Server(Gallery(exhibit), token, (f"{LOOPBACK}:{port}", f"localhost:{port}"))
    address = f"http://{LOOPBACK}:{port}/{token}/"
    on_address(address)
    Thread(target=warm, args=[exhibit], daemon=True).start()
    if browser:
        Timer(SOON, webbrowser.open, [address]).start()
    how = dict(lifespan="off", log_level="critical", access_log=False, server_header=False)
    limits = dict(limit_concurrency=CONNECTIONS, timeout_keep_alive=30, timeout_graceful_shutdown=2)
    uvicorn.Server(uvicorn.Config(server, ws="none", http="h11", **how, **limits)).run(sockets=[listening])


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
