"""Message brokers of others, as Debian packages them, each with a client of a few lines: events published one by one.

    rabbitmq-server   a headers exchange with a binding for each filter; it tests equality only, so ranges are left out
    activemq          a topic with a selector for each filter: content with ranges, as here
    nats-server       a subject for each symbol and a subscription for each filter: no content, a ceiling
    mosquitto         the same with topics of MQTT

All run in memory without acknowledgements, one publisher pipelines, and the time ends when the broker has answered the last
message. `apt install rabbitmq-server activemq nats-server mosquitto` installs them; who lacks one has no row for it.
Rule: a broker gets the messages of the others, as its own protocol can say them.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

START_LIMIT_S: Final = 90.0
RABBIT: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
ACTIVEMQ: Final = Path("/usr/share/activemq/lib")

Row = dict[str, Any]


def _port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


@asynccontextmanager
async def _running(command: list[str], port: int, **environment: str) -> AsyncIterator[None]:
    running = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | environment, start_new_session=True
    )
    try:
        until = time.monotonic() + START_LIMIT_S
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                break
            except OSError:
                if running.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"{command[0]} does not listen") from None
                await asyncio.sleep(0.2)
        yield
    finally:
        running.terminate()
        try:
            running.wait(20)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


class Lines:
    """A connection: what is answered is read all the time, so that no broker waits for it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._tail = b""
        self._seen = asyncio.Condition()
        self._task = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, port: int) -> Lines:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def _read(self) -> None:
        while data := await self.reader.read(1 << 16):
            async with self._seen:
                self._tail = (self._tail + data)[-(1 << 20) :]
                self._seen.notify_all()

    async def send(self, *parts: bytes) -> None:
        self.writer.write(b"".join(parts))
        await self.writer.drain()

    async def until(self, wanted: bytes, limit_s: float = START_LIMIT_S) -> None:
        async with asyncio.timeout(limit_s), self._seen:
            while wanted not in self._tail:
                await self._seen.wait()
            self._tail = self._tail.partition(wanted)[2]

    def close(self) -> None:
        self._task.cancel()
        self.writer.close()


async def _timed(connection: Lines, messages: list[bytes], last: bytes, answer: bytes) -> float:
    """Messages per second, once warm; `last` is answered when all before it were handled."""
    for part in (messages[: len(messages) // 10], messages):
        begun = time.perf_counter()
        for at in range(0, len(part), 100):
            await connection.send(*part[at : at + 100])
        await connection.send(last)
        await connection.until(answer, 240.0)
        took_s = time.perf_counter() - begun
    return len(messages) / took_s


# --- STOMP: RabbitMQ and ActiveMQ


def _frame(command: str, body: bytes = b"", **headers: object) -> bytes:
    told = "".join(f"{name.replace('__', '-')}:{str(value).replace(':', chr(92) + 'c')}\n" for name, value in headers.items())
    return f"{command}\n{told}\n".encode() + body + b"\0"


async def _stomp(port: int, user: str) -> Lines:
    connection = await Lines.open(port)
    await connection.send(_frame("CONNECT", accept__version="1.2", host="/", login=user, passcode=user))
    await connection.until(b"CONNECTED")
    return connection


def _sends(destination: str, events: list[Row]) -> list[bytes]:
    return [_frame("SEND", json.dumps(each).encode(), destination=destination, **each) for each in events]


async def activemq(predicates: list[str], events: list[Row]) -> float:
    port = _port()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "activemq.xml"
        config.write_text(
            '<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
            'xsi:schemaLocation="http://www.springframework.org/schema/beans http://www.springframework.org/schema/beans/'
            'spring-beans-3.0.xsd http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">'
            '<broker xmlns="http://activemq.apache.org/schema/core" brokerName="bench" persistent="false" useJmx="false" '
            f'dataDirectory="{folder}"><transportConnectors><transportConnector uri="stomp://127.0.0.1:{port}"/>'
            "</transportConnectors></broker></beans>"
        )
        jars = ":".join(map(str, [*ACTIVEMQ.glob("*.jar"), *(ACTIVEMQ / "optional").glob("*.jar")]))
        java = shutil.which("java") or "java"
        command = [java, "-Xmx1g", "-cp", jars, "org.apache.activemq.console.Main", "start", f"xbean:file:{config}"]
        async with _running(command, port):
            publisher, subscriber = await _stomp(port, "bench"), await _stomp(port, "bench")
            for at, text in enumerate(predicates):
                chosen = f"convert_string_expressions:{text}"
                await subscriber.send(_frame("SUBSCRIBE", id=at, destination="/topic/trades", selector=chosen))
            await subscriber.send(_frame("SUBSCRIBE", id="last", destination="/topic/none", receipt="ready"))
            await subscriber.until(b"receipt-id:ready", 240.0)
            last = _frame("SEND", destination="/topic/none", receipt="done")
            return await _timed(publisher, _sends("/topic/trades", events), last, b"receipt-id:done")


def _bindings(predicates: list[str]) -> list[dict[str, Any]]:
    """The equalities of each filter; a filter that has none asks for the place that its number names."""
    found = []
    for at, text in enumerate(predicates):
        equal = dict(re.findall(r"(\w+) = '([^']*)'", text)) or {"place": f"n{at}"}
        arguments = {**equal, "x-match": "all"}
        described = {"source": "filters", "vhost": "/", "destination": "wanted", "destination_type": "queue"}
        found.append({**described, "routing_key": str(at), "arguments": arguments})
    return found


async def rabbitmq(predicates: list[str], events: list[Row]) -> float:
    port, other = _port(), _port()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        salt = b"salt"
        hashed = base64.b64encode(salt + hashlib.sha256(salt + b"bench").digest()).decode()
        user = {"name": "bench", "password_hash": hashed, "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": ""}
        definitions = {
            "users": [user],
            "vhosts": [{"name": "/"}],
            "permissions": [{"user": "bench", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
            "queues": [
                {"name": "wanted", "vhost": "/", "durable": False, "auto_delete": False, "arguments": {"x-max-length": 1}}
            ],
            "exchanges": [
                {
                    "name": "filters",
                    "vhost": "/",
                    "type": "headers",
                    "durable": False,
                    "auto_delete": False,
                    "internal": False,
                    "arguments": {},
                }
            ],
            "bindings": _bindings(predicates),
        }
        (folder / "definitions.json").write_text(json.dumps(definitions))
        (folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.default = {other}\nstomp.listeners.tcp.1 = {port}\nload_definitions = {folder}/definitions.json\n"
        )
        (folder / "enabled_plugins").write_text("[rabbitmq_stomp].\n")
        environment = {
            "HOME": name,
            "RABBITMQ_NODENAME": f"bench{port}@localhost",
            "RABBITMQ_DIST_PORT": str(_port()),
            "RABBITMQ_MNESIA_BASE": f"{name}/mnesia",
            "RABBITMQ_LOG_BASE": f"{name}/log",
            "RABBITMQ_CONFIG_FILE": f"{name}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{name}/enabled_plugins",
        }
        async with _running([str(RABBIT)], port, **environment):
            publisher = await _stomp(port, "bench")
            last = _frame("SEND", destination="/exchange/filters", receipt="done", nobody="wants it")
            return await _timed(publisher, _sends("/exchange/filters", events), last, b"receipt-id:done")


# --- topics


def _topics(count: int, events: list[Row]) -> list[str]:
    """One for each filter: the symbols of the events in turn, then places that nothing is published to."""
    symbols = list(dict.fromkeys(each["symbol"] for each in events))
    return [symbols[at] if at < len(symbols) else f"n{at}" for at in range(count)]


async def nats(predicates: list[str], events: list[Row]) -> float:
    port = _port()
    async with _running([shutil.which("nats-server") or "nats-server", "-a", "127.0.0.1", "-p", str(port)], port):
        publisher, subscriber = await Lines.open(port), await Lines.open(port)
        for each in (publisher, subscriber):
            await each.send(b'CONNECT {"verbose":false}\r\nPING\r\n')
            await each.until(b"PONG\r\n")
        topics = _topics(len(predicates), events)
        await subscriber.send(*(f"SUB trades.{topic} {at}\r\n".encode() for at, topic in enumerate(topics)), b"PING\r\n")
        await subscriber.until(b"PONG\r\n")
        messages = []
        for each in events:
            body = json.dumps(each).encode()
            messages.append(f"PUB trades.{each['symbol']} {len(body)}\r\n".encode() + body + b"\r\n")
        return await _timed(publisher, messages, b"PING\r\n", b"PONG\r\n")


def _mqtt(kind: int, body: bytes) -> bytes:
    length, size = b"", len(body)
    while True:
        size, digit = divmod(size, 128)
        length += bytes([digit | (0x80 if size else 0)])
        if not size:
            return bytes([kind]) + length + body


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text.encode())) + text.encode()


async def mosquitto(predicates: list[str], events: list[Row]) -> float:
    port = _port()
    binary = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as config:
        config.write(f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n")
        config.flush()
        async with _running([binary, "-c", config.name], port):
            publisher, subscriber = await Lines.open(port), await Lines.open(port)
            for each, name in ((publisher, "p"), (subscriber, "s")):
                await each.send(_mqtt(0x10, _text("MQTT") + bytes([4, 2]) + struct.pack(">H", 600) + _text(name)))
                await each.until(b"\x20\x02\x00\x00")
            for at, topic in enumerate(_topics(len(predicates), events), 1):
                await subscriber.send(_mqtt(0x82, struct.pack(">H", 1 + at % 65_000) + _text(f"trades/{topic}") + b"\0"))
            await subscriber.send(b"\xc0\x00")
            await subscriber.until(b"\xd0\x00")
            messages = [_mqtt(0x30, _text(f"trades/{each['symbol']}") + json.dumps(each).encode()) for each in events]
            return await _timed(publisher, messages, b"\xc0\x00", b"\xd0\x00")


Measure = Callable[[list[str], list[Row]], Any]
PEERS: Final[dict[str, tuple[str, Callable[[], bool], Measure]]] = {
    "rabbitmq": ("headers exchange, equality only", RABBIT.exists, rabbitmq),
    "activemq": ("selectors with ranges", lambda: (ACTIVEMQ / "activemq-stomp.jar").exists(), activemq),
    "nats": ("subjects, no content", lambda: shutil.which("nats-server") is not None, nats),
    "mosquitto": (
        "topics, no content",
        lambda: shutil.which("mosquitto") is not None or Path("/usr/sbin/mosquitto").exists(),
        mosquitto,
    ),
}
