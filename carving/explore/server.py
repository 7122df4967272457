"""The door: an ASGI application that lets in who knows the token, hands out the page, and answers in JSON.

It is bound to the loopback address, but any page of any site may send requests there. So the address has a token that
only the person's browser knows, the Host must be ours (a name that is made to point here is not), whoever says its
Origin must be our page, and changes must be JSON, which other pages cannot send unasked.
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

LARGEST = 1 << 16  # bytes of a request
FIELDS = 50  # values of a question
PATIENCE = 60.0  # seconds for an answer, or for a round of several
SLOW = 10.0  # seconds for a request to arrive
AT_ONCE = 4  # questions that are worked on
OPENED = ("navigate", "document")  # what browsers say of a page that is opened in a tab

BUG = "a bug of Carving, whose traceback stands where the explorer was started"
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
    """A request that is turned away, with its status and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Request(NamedTuple):
    """What somebody wants."""

    method: str
    path: str
    query: str
    headers: dict[str, str]

    @classmethod
    def of(cls, scope: Scope) -> "Request":
        """The request of an ASGI scope."""
        headers: dict[str, str] = {}
        for field, value in scope["headers"]:  # one that comes twice is a list, which nobody of us sends
            name, said = field.decode("latin-1").lower(), value.decode("latin-1")
            headers[name] = f"{headers[name]}, {said}" if name in headers else said
        return cls(scope["method"], scope["path"], scope["query_string"].decode("latin-1"), headers)


class Server:
    """The application: `token` stands first in every path, `hosts` are the names that it answers to."""

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
            if request.path == f"/{self.token}":  # from there the page would look for its files in the wrong place
                await _start(send, 308, "text/plain", location=f"/{self.token}/")
                await send({"type": "http.response.body", "body": b""})
            elif rest.startswith("api/"):
                await self._answer(request, rest.removeprefix("api/"), receive, send)
            else:
                await self._hand_out(request, rest, send)
        except Refused as refused:
            await _send_json(send, refused.status, dict(error=str(refused)))

    def _admitted(self, request: Request) -> str:
        """The path behind the token; whoever is not our page is turned away."""
        ours = [f"http://{host}" for host in self.hosts]
        if request.headers.get("host") not in self.hosts:
            raise Refused(403, "this address does not belong to the explorer")
        _, given, rest = (*request.path.split("/", 2), "", "")[:3]
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "none")
        # The browser comes from a private file (`serving.redirect`), which is another site.
        opened = not rest and (request.headers.get("sec-fetch-mode"), request.headers.get("sec-fetch-dest")) == OPENED
        if (origin is not None and origin not in ours) or (site not in ("none", "same-origin") and not opened):
            raise Refused(403, "only the explorer's own page may ask here")
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            raise Refused(403, "this address has not the token that `carving explore` printed; take the whole address")
        return rest

    async def _hand_out(self, request: Request, name: str, send: Send) -> None:
        """A file of the page."""
        if request.method not in ("GET", "HEAD"):
            raise Refused(405, "files are read with GET")
        name = name or "index.html"
        kind = KINDS.get(name[name.rfind(".") :])
        held = PAGE.get(name)
        if held is None or kind is None:
            raise Refused(404, "there is no such page")
        await _send(send, 200, f"{kind}; charset=utf-8", held if request.method == "GET" else b"")

    async def _answer(self, request: Request, name: str, receive: Receive, send: Send) -> None:
        """An answer in JSON, or several, one a line."""
        route = ROUTES.get((request.method, name))
        if route is None:
            known = any(name == other for _, other in ROUTES)
            raise Refused(405 if known else 404, f"there is no {request.method} {name} here; docs/explore.md lists all")
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
            raise Refused(503, f"this took longer than {PATIENCE:.0f} seconds; ask for less") from None
        except Refused:
            raise
        except Exception:
            traceback.print_exc(file=sys.stderr)
            raise Refused(500, BUG) from None


async def _within(work: Awaitable[Reply]) -> Reply:
    return await asyncio.wait_for(work, PATIENCE)


async def _values(request: Request, receive: Receive) -> dict[str, object]:
    """What a request gives: by its address, or as JSON."""
    if request.method == "GET":
        return _queried(request.query)
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise Refused(415, "changes are sent as application/json")
    try:
        body = await asyncio.wait_for(_body(receive), SLOW)
    except TimeoutError:
        raise Refused(408, f"the request did not arrive within {SLOW:.0f} seconds; send it again") from None
    try:
        values: object = json.loads(body)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise Refused(400, "a JSON object was wanted")
    return values


def _queried(query: str) -> dict[str, object]:
    try:
        return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=FIELDS))
    except ValueError:
        raise Refused(400, f"a question may have {FIELDS} values; send fewer") from None


async def _body(receive: Receive) -> bytes:
    """The bytes that were sent, not too many."""
    parts = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "the request ended in its middle")
        parts += message.get("body", b"")
        if len(parts) > LARGEST:
            raise Refused(413, f"a request may have {LARGEST:,} bytes; send less")
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
    # Half of a pair of surrogates may stand in a label: as an escape it is JSON all the same.
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


async def _send_lines(send: Send, receive: Receive, lines: Iterator[Json]) -> None:
    """One object a line as they come; no more once nobody listens."""
    gone = asyncio.ensure_future(_disconnected(receive))
    await _start(send, 200, "application/x-ndjson")
    try:
        while not gone.done():
            line = await asyncio.wait_for(asyncio.to_thread(next, lines, None), PATIENCE)
            if line is None:
                break
            await send({"type": "http.response.body", "body": _encoded(line) + b"\n", "more_body": True})
    except Exception as error:  # the status has gone out already: what went wrong is the last line
        said = _said(error)
        await send({"type": "http.response.body", "body": _encoded(dict(error=said)) + b"\n", "more_body": True})
    finally:
        gone.cancel()
    await send({"type": "http.response.body", "body": b""})


def _said(error: Exception) -> str:
    """What a page is told of an error among its lines."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"a round took longer than {PATIENCE:.0f} seconds"
    traceback.print_exception(error, file=sys.stderr)
    return BUG


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _page() -> dict[str, bytes]:
    """The files of the page: few, and read once, so that no name can lead elsewhere."""
    folder = files("carving.explore") / "page"
    return {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.is_file()}


PAGE = _page()
