"""The web server of the page: plain files, the stream of snapshots, one snapshot as JSON, and why.

    GET /             page.html, page.css, page.js, icon.svg: static, with nothing of any broker in them
    GET /events       server-sent events, one for each snapshot
    GET /snapshot     the same as JSON, once
    POST /why         an event as JSON, answered by `asking`

The page shows what only an operator may see, so other sites that the operator's browser visits must not get at it: a request
names this server by an address, by localhost or by a name that was given (against DNS rebinding), and a question comes from
the page itself.
Rule: no handler changes anything, and none asks a broker but through the lookout and `asking`.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from contentcast.model import ContentcastError
from contentcast.web.asking import answer
from contentcast.web.lookout import Lookout, as_json

try:
    from aiohttp import web
except ImportError as missing:
    raise ContentcastError("the web page needs aiohttp, which is not installed: pip install 'contentcast[web]'") from missing

MOST_VIEWERS: Final = 200
MOST_QUESTION_BYTES: Final = 256 * 1024
STUCK_S: Final = 30.0
"""A viewer that takes nothing for so long is cut off."""
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
PAGE: Final = {"/": "page.html", "/page.css": "page.css", "/page.js": "page.js", "/icon.svg": "icon.svg"}
KINDS: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Where:
    """Where the server listens, and by which names it may be called besides localhost and addresses."""

    host: str
    port: int
    names: frozenset[str] = frozenset()

    @classmethod
    def read(cls, text: str, names: tuple[str, ...] = (), *, insecure: bool = False) -> Where:
        try:
            parts = urlsplit(f"//{text}")
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if not host or port is None or parts.path or parts.username:
            raise ContentcastError(f"--listen is HOST:PORT, such as 127.0.0.1:8080, got {text!r}")
        if not _is_loopback(host) and not insecure:
            raise ContentcastError(
                f"whoever reaches {text} could look inside the brokers. Listen on 127.0.0.1 (and go there through ssh -L), "
                "or put a proxy with TLS and a password before it, or add --insecure"
            )
        return cls(host, port, frozenset({host, *(each.lower() for each in names)}))

    def may_be_called(self, host: str) -> bool:
        """A page of another site whose name was pointed here (DNS rebinding) calls this server by that name."""
        with suppress(ValueError):
            name = urlsplit(f"//{host}").hostname or ""
            return name == "localhost" or name in self.names or _is_address(name)
        return False


class Server:
    """`async with Server(where, lookout, options)`: it serves until the end. `options` as for `connect`."""

    def __init__(self, where: Where, lookout: Lookout, options: dict[str, Any]) -> None:
        self._where, self._lookout, self._options = where, lookout, options
        self._viewing: set[asyncio.Task[Any]] = set()
        self._asking = asyncio.Lock()
        app = web.Application(middlewares=[self._guard], client_max_size=MOST_QUESTION_BYTES)
        for path, name in PAGE.items():
            app.router.add_get(path, _static(name), allow_head=False)
        app.router.add_get("/events", self._events, allow_head=False)
        app.router.add_get("/snapshot", self._snapshot, allow_head=False)
        app.router.add_post("/why", self._why)
        app.on_response_prepare.append(_add_headers)
        app.on_shutdown.append(self._end_viewing)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=2.0)
        self.url = ""

    async def __aenter__(self) -> Server:
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._where.host, self._where.port).start()
        except OSError as reason:
            await self._runner.cleanup()
            listen = f"{self._where.host}:{self._where.port}"
            raise ContentcastError(f"cannot listen on {listen}: {reason.strerror or reason}; --listen 127.0.0.1:0") from None
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()
        await self._lookout.close()

    @property
    def viewers(self) -> int:
        return len(self._viewing)

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not self._where.may_be_called(request.headers.get("Host", "")):
            return _problem(421, "this server is called by its address or by localhost; --host NAME allows another name")
        try:
            return await handler(request)
        except web.HTTPException as refused:
            return _problem(refused.status, refused.reason)

    # --- looking

    async def _snapshot(self, request: web.Request) -> web.Response:
        seen = await self._lookout.latest()
        return web.Response(body=seen.written, content_type="application/json")

    async def _events(self, request: web.Request) -> web.StreamResponse:
        if self.viewers >= MOST_VIEWERS:
            return _problem(503, f"{MOST_VIEWERS} viewers are here already")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        task = asyncio.current_task()
        assert task is not None
        self._viewing.add(task)
        try:
            await response.prepare(request)
            number = 0
            while True:
                seen = await self._lookout.newer_than(number)
                number = seen.number
                # A viewer that reads slowly misses the snapshots that were made meanwhile, and nobody waits for it.
                async with asyncio.timeout(STUCK_S):
                    await response.write(b"data: " + seen.written + b"\n\n")
        except (ConnectionError, TimeoutError):
            return response
        finally:
            self._viewing.discard(task)

    async def _end_viewing(self, app: web.Application) -> None:
        for task in self._viewing:
            task.cancel()

    # --- why

    async def _why(self, request: web.Request) -> web.Response:
        if request.content_type != "application/json" or not self._is_own(request):
            return _problem(403, "questions are asked by the page of this server, as application/json")
        try:
            asked = msgspec.json.decode(await request.read())  # before it is its turn: a body may be long on its way
        except (msgspec.DecodeError, RecursionError) as reason:
            return _problem(400, f"the question is no JSON: {reason}")
        if self._asking.locked():
            return _problem(503, "another question is being answered; ask again")
        async with self._asking:
            try:
                counted = await self._lookout.counted()  # it is of now, and so are the brokers that answer
                brokers = {look.name: look.url for look in self._lookout.looks if look.name and not look.problem}
                told = await answer(asked, brokers, counted, self._options)
                return web.Response(body=as_json(told), content_type=JSON)
            except ContentcastError as reason:
                return _problem(400, str(reason))

    def _is_own(self, request: web.Request) -> bool:
        """Browsers say from where a question comes; programs may say nothing."""
        origin = request.headers.get("Origin")
        return origin is None or urlsplit(origin).netloc == request.headers.get("Host")


JSON: Final = "application/json"


def _problem(status: int, what: str) -> web.Response:
    return web.Response(status=status, body=as_json({"problem": what}), content_type=JSON)


def _static(name: str) -> Handler:
    body = (files("contentcast.web") / "page" / name).read_bytes()
    kind = KINDS[name.rpartition(".")[2]]

    async def serve(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type=kind, charset="utf-8")

    return serve


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
