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
from carving.explore.params import Params
from carving.explore.routes import ROUTES, Reply
from carving.explore.serializers import Json
from carving.explore.sessions import SessionStore

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MAX_BODY_BYTES = 1 << 16
MAX_PARAMETERS = 50  # of a query
REQUEST_TIMEOUT = 60.0  # seconds for an answer, or for one line of a stream
BODY_TIMEOUT = 10.0  # seconds for a request body to arrive
MAX_CONCURRENT_REQUESTS = 4
NAVIGATION = ("navigate", "document")  # fetch metadata of a page that is opened in a tab

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


class HTTPError(Exception):
    """The HTTP status and the error message of a refused request."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
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
            name, text = field.decode("latin-1").lower(), value.decode("latin-1")
            headers[name] = f"{headers[name]}, {text}" if name in headers else text
        return cls(scope["method"], scope["path"], scope["query_string"].decode("latin-1"), headers)


class Server:
    """The application: `token` is the first part of every URL path, `hosts` are the accepted Host headers."""

    def __init__(self, sessions: SessionStore, token: str, hosts: tuple[str, ...]) -> None:
        self.sessions, self.token, self.hosts = sessions, token, hosts
        self._limiter = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        try:
            request = Request.of(scope)
            rest = self._authorize(request)
            if request.path == f"/{self.token}":  # relative URLs need the final slash
                await _start(send, 308, "text/plain", location=f"/{self.token}/")
                await send({"type": "http.response.body", "body": b""})
            elif rest.startswith("api/"):
                await self._answer(request, rest.removeprefix("api/"), receive, send)
            else:
                await self._send_file(request, rest, send)
        except HTTPError as error:
            await _send_json(send, error.status, dict(error=str(error)))

    def _authorize(self, request: Request) -> str:
        """Return the path after the token; refuse requests that are not from the explorer's page."""
        ours = [f"http://{host}" for host in self.hosts]
        if request.headers.get("host") not in self.hosts:
            raise HTTPError(403, "The host is not the explorer's. Open the address that `carving explore` printed.")
        _, token, rest = (*request.path.split("/", 2), "", "")[:3]
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "none")
        # The browser comes from a local file (`serving.redirect`), which is another site.
        opened = (
            not rest and (request.headers.get("sec-fetch-mode"), request.headers.get("sec-fetch-dest")) == NAVIGATION
        )
        if (origin is not None and origin not in ours) or (site not in ("none", "same-origin") and not opened):
            raise HTTPError(403, "Cross-site request refused: only the explorer's own page may send requests.")
        if not secrets.compare_digest(token.encode(), self.token.encode()):
            raise HTTPError(
                403,
                "The token in the address is wrong. Open the address that `carving explore` printed.",
            )
        return rest

    async def _send_file(self, request: Request, name: str, send: Send) -> None:
        """Send a file of the page."""
        if request.method not in ("GET", "HEAD"):
            raise HTTPError(405, "Files of the page accept only GET and HEAD.")
        name = name or "index.html"
        kind = KINDS.get(name[name.rfind(".") :])
        content = PAGE.get(name)
        if content is None or kind is None:
            raise HTTPError(404, "There is no such file.")
        await _send(send, 200, f"{kind}; charset=utf-8", content if request.method == "GET" else b"")

    async def _answer(self, request: Request, name: str, receive: Receive, send: Send) -> None:
        """Send an answer as JSON, or several as lines of JSON."""
        route = ROUTES.get((request.method, name))
        if route is None:
            known = any(name == other for _, other in ROUTES)
            status = 405 if known else 404
            raise HTTPError(status, f"There is no request {request.method} {name}. docs/explore.md lists all.")
        params = Params(await _parameters(request, receive))
        try:
            async with self._limiter:
                reply = await _with_timeout(asyncio.to_thread(route, self.sessions, params))
                if isinstance(reply, dict):
                    await _send_json(send, 200, reply)
                else:
                    await _send_lines(send, receive, reply)
        except UserError as error:
            raise HTTPError(400, str(error)) from None
        except TimeoutError:
            raise HTTPError(503, f"The request took longer than {REQUEST_TIMEOUT:.0f} seconds. Ask for less.") from None
        except HTTPError:
            raise
        except Exception:
            traceback.print_exc(file=sys.stderr)
            raise HTTPError(500, BUG) from None


async def _with_timeout(work: Awaitable[Reply]) -> Reply:
    return await asyncio.wait_for(work, REQUEST_TIMEOUT)


async def _parameters(request: Request, receive: Receive) -> dict[str, object]:
    """Return the parameters of a request: of its query string, or of its JSON body."""
    if request.method == "GET":
        return _query_parameters(request.query)
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPError(415, "POST requests must have the content type application/json.")
    try:
        body = await asyncio.wait_for(_body(receive), BODY_TIMEOUT)
    except TimeoutError:
        raise HTTPError(408, f"No complete request body within {BODY_TIMEOUT:.0f} seconds. Send it again.") from None
    try:
        values: object = json.loads(body)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise HTTPError(400, "The request body must be a JSON object.")
    return values


def _query_parameters(query: str) -> dict[str, object]:
    try:
        return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=MAX_PARAMETERS))
    except ValueError:
        raise HTTPError(400, f"A query must have at most {MAX_PARAMETERS} parameters.") from None


async def _body(receive: Receive) -> bytes:
    """Return the request body, of limited size."""
    parts = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise HTTPError(400, "The connection was closed before the request was complete.")
        parts += message.get("body", b"")
        if len(parts) > MAX_BODY_BYTES:
            raise HTTPError(413, f"A request body must have at most {MAX_BODY_BYTES:,} bytes.")
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
            line = await asyncio.wait_for(asyncio.to_thread(next, lines, None), REQUEST_TIMEOUT)
            if line is None:
                break
            await send({"type": "http.response.body", "body": _encoded(line) + b"\n", "more_body": True})
    except Exception as error:  # the status was sent already: the error becomes the last line
        line = dict(error=_error_message(error))
        await send({"type": "http.response.body", "body": _encoded(line) + b"\n", "more_body": True})
    finally:
        gone.cancel()
    await send({"type": "http.response.body", "body": b""})


def _error_message(error: Exception) -> str:
    """Return the message of an error for the page."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"A step took longer than {REQUEST_TIMEOUT:.0f} seconds."
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
