"""ASGI application of the explorer: authenticates by a token in the URL, serves the page, and answers in JSON.

It listens on the loopback address, but pages of any site can send requests there. Therefore the URL has a secret token,
the Host header must be the server's own (against DNS rebinding), an Origin header must be the page's own, and changes
must be JSON, which other sites cannot send without a CORS preflight.
"""

import asyncio
import json
import secrets
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from carving.errors import UserError
from carving.explore.exhibit import Gallery
from carving.explore.given import Given
from carving.explore.routes import ROUTES, Reply
from carving.explore.shown import Json

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LARGEST = 1 << 16  # bytes of a request body
FIELDS = 50  # parameters of a query
PATIENCE = 60.0  # seconds for an answer, or for one line of a stream
SLOW = 10.0  # seconds for a request body to arrive
AT_ONCE = 4  # concurrent requests
OPENED = ("navigate", "document")  # fetch metadata of a page that is opened in a tab

BUG = "Internal error: this is a bug in Carving. The terminal that runs the explorer shows its traceback."
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Refused(Exception):
    """A refused request: its HTTP status and an error message."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Request(NamedTuple):
    """An HTTP request without its body."""

    method: str
    path: str
    query: str
    headers: dict[str, str]

    @classmethod
    def of(cls, scope: Scope) -> "Request":
        """Return the request of an ASGI scope."""
        headers: dict[str, str] = {}
        for field, value in scope["headers"]:  # a repeated header becomes a list, which the page never sends
            name, said = field.decode("latin-1").lower(), value.decode("latin-1")
            headers[name] = f"{headers[name]}, {said}" if name in headers else said
        return cls(scope["method"], scope["path"], scope["query_string"].decode("latin-1"), headers)


class Server:
    """The application: `token` is the first part of every URL path, `hosts` are the accepted Host headers."""

    def __init__(self, gallery: Gallery, token: str, hosts: tuple[str, ...]) -> None:
        self.gallery, self.token, self.hosts = gallery, token, hosts
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        try:
            request = Request.of(scope)
            rest = self._admitted(request)
            if request.path == f"/{self.token}":  # relative URLs need the final slash
                await _start(send, 308, "text/plain", location=f"/{self.token}/")
                await send({"type": "http.response.body", "body": b""})
            elif rest.startswith("api/"):
                await self._answer(request, rest.removeprefix("api/"), receive, send)
            else:
                await self._hand_out(request, rest, send)
        except Refused as refused:
            await _send_json(send, refused.status, dict(error=str(refused)))

    def _admitted(self, request: Request) -> str:
        """Return the path after the token; refuse requests that are not from the explorer's page."""
        ours = [f"http://{host}" for host in self.hosts]
        if request.headers.get("host") not in self.hosts:
            raise Refused(403, "The host name is not the explorer's. Open the address that `carving explore` printed.")
        _, given, rest = (*request.path.split("/", 2), "", "")[:3]
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "none")
        # The browser comes from a local file (`serving.redirect`), which is another site.
        opened = not rest and (request.headers.get("sec-fetch-mode"), request.headers.get("sec-fetch-dest")) == OPENED
        if (origin is not None and origin not in ours) or (site not in ("none", "same-origin") and not opened):
            raise Refused(403, "Cross-site request refused: only the explorer's own page may send requests.")
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            raise Refused(
                403,
                "The token in the address is wrong. Open the address that `carving explore` printed.",
            )
        return rest

    async def _hand_out(self, request: Request, name: str, send: Send) -> None:
        """Send a file of the page."""
        if request.method not in ("GET", "HEAD"):
            raise Refused(405, "Files of the page accept only GET and HEAD.")
        name = name or "index.html"
        kind = KINDS.get(name[name.rfind(".") :])
        held = PAGE.get(name)
        if held is None or kind is None:
            raise Refused(404, "There is no such file.")
        await _send(send, 200, f"{kind}; charset=utf-8", held if request.method == "GET" else b"")

    async def _answer(self, request: Request, name: str, receive: Receive, send: Send) -> None:
        """Send an answer as JSON, or several as lines of JSON."""
        route = ROUTES.get((request.method, name))
        if route is None:
            known = any(name == other for _, other in ROUTES)
            status = 405 if known else 404
            raise Refused(status, f"There is no request {request.method} {name}. docs/explore.md lists all.")
        given = Given(await _values(request, receive))
        try:
            async with self._turns:
                reply = await _within(asyncio.to_thread(route, self.gallery, given))
                if isinstance(reply, dict):
                    await _send_json(send, 200, reply)
                else:
                    await _send_lines(send, receive, reply)
        except UserError as error:
            raise Refused(400, str(error)) from None
        except TimeoutError:
            raise Refused(503, f"The request took longer than {PATIENCE:.0f} seconds. Ask for less.") from None
        except Refused:
            raise
        except Exception:
            traceback.print_exc(file=sys.stderr)
            raise Refused(500, BUG) from None


async def _within(work: Awaitable[Reply]) -> Reply:
    return await asyncio.wait_for(work, PATIENCE)


async def _values(request: Request, receive: Receive) -> dict[str, object]:
    """Return the parameters of a request: of its query string, or of its JSON body."""
    if request.method == "GET":
        return _queried(request.query)
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise Refused(415, "POST requests must have the content type application/json.")
    try:
        body = await asyncio.wait_for(_body(receive), SLOW)
    except TimeoutError:
        raise Refused(408, f"The request body did not arrive within {SLOW:.0f} seconds. Send it again.") from None
    try:
        values: object = json.loads(body)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise Refused(400, "The request body must be a JSON object.")
    return values


def _queried(query: str) -> dict[str, object]:
    try:
        return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=FIELDS))
    except ValueError:
        raise Refused(400, f"A query must have at most {FIELDS} parameters.") from None


async def _body(receive: Receive) -> bytes:
    """Return the request body, of limited size."""
    parts = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "The connection was closed before the request was complete.")
        parts += message.get("body", b"")
        if len(parts) > LARGEST:
            raise Refused(413, f"A request body must have at most {LARGEST:,} bytes.")
        if not message.get("more_body"):
            return bytes(parts)


async def _send(send: Send, status: int, kind: str, body: bytes) -> None:
    await _start(send, status, kind)
    await send({"type": "http.response.body", "body": body})


async def _start(send: Send, status: int, kind: str, **more: str) -> None:
    headers = [(name.encode(), value.encode()) for name, value in (HEADERS | {"content-type": kind} | more).items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _send_json(send: Send, status: int, value: Json) -> None:
    await _send(send, status, "application/json", _encoded(value))


def _encoded(value: Json) -> bytes:
    # Labels may contain lone surrogates, which are valid JSON when escaped.
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


async def _send_lines(send: Send, receive: Receive, lines: Iterator[Json]) -> None:
    """Stream one object per line; stop when the client disconnects."""
    gone = asyncio.ensure_future(_disconnected(receive))
    await _start(send, 200, "application/x-ndjson")
    try:
        while not gone.done():
            line = await asyncio.wait_for(asyncio.to_thread(next, lines, None), PATIENCE)
            if line is None:
                break
            await send({"type": "http.response.body", "body": _encoded(line) + b"\n", "more_body": True})
    except Exception as error:  # the status was sent already: the error becomes the last line
        said = _said(error)
        await send({"type": "http.response.body", "body": _encoded(dict(error=said)) + b"\n", "more_body": True})
    finally:
        gone.cancel()
    await send({"type": "http.response.body", "body": b""})


def _said(error: Exception) -> str:
    """Return the message of an error for the page."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"A step took longer than {PATIENCE:.0f} seconds."
    traceback.print_exception(error, file=sys.stderr)
    return BUG


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _page() -> dict[str, bytes]:
    """Read the files of the page once, so that no request can reach other files."""
    folder = files("carving.explore") / "page"
    return {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.is_file()}


PAGE = _page()
