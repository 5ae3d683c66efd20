"""The size of a live broker: memory with many TLS clients, and the time until it serves a million subscriptions again.

Part of `make bench ARGS=live`.
"""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trustme

import contentcast as cc
from contentcast.wire import encode, frame
from contentcast.wire.client import Hello
from contentcast.workload import scenario

AT_ONCE = 50
"""Handshakes at once."""
SEED = 1


@contextmanager
def _process(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "contentcast.cli", "broker", "--json", *words]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert running.stdout is not None
        yield running, json.loads(running.stdout.readline())["listen"][0]
    finally:
        running.kill()
        running.wait()


def _megabytes(pid: int) -> float:
    (line,) = [each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


async def tls_clients(count: int) -> dict[str, Any]:
    """Clients that are greeted and connected over TLS, all at once; the memory of the broker's process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2 * count)), hard))
    authority = trustme.CA()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        issued = authority.issue_cert("127.0.0.1")
        (folder / "broker.pem").write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(folder / "broker.key")
        (folder / "broker.toml").write_text(
            'listen = ["contentcasts://127.0.0.1:0"]\n[tls]\ncertificate = "broker.pem"\nkey = "broker.key"\n'
            '[access.rights."*"]\noperate = true\nsubscribe = { "*" = "TRUE" }\n[limits]\nclient_dead_after_s = 3600\n'
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        authority.configure_trust(context)
        with _process("--config", str(folder / "broker.toml")) as (running, url):
            port = int(url.rpartition(":")[2])
            before = _megabytes(running.pid)
            turn = asyncio.Semaphore(AT_ONCE)

            async def one(at: int) -> asyncio.StreamWriter:
                async with turn:
                    reader, writer = await asyncio.open_connection(
                        "127.0.0.1", port, ssl=context, server_hostname="127.0.0.1", limit=4096
                    )
                    writer.write(frame(encode(Hello("client", f"client-{at}"))))
                    await reader.read(1)  # it is welcome
                    return writer

            begun = time.perf_counter()
            writers = await asyncio.gather(*(one(at) for at in range(count)))
            took_s = time.perf_counter() - begun
            after = _megabytes(running.pid)
            for each in writers:
                each.transport.abort()
    return {"clients": count, "MB before": before, "MB with them": after, "connected in s": took_s}


async def restart(count: int) -> dict[str, Any]:
    """A client with so many subscriptions; the broker is killed and started again: until all of them stand once more."""
    market = scenario("market", seed=SEED)
    texts = market.subscriptions(count)["predicate"].to_pylist()
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        address = f"contentcast://127.0.0.1:{held.getsockname()[1]}"
    with _process("--listen", address) as (running, _):
        client = await cc.connect(address, name="desk")
        await client.declare(market.space)
        begun = time.perf_counter()
        await client.subscribe_many(market.space.name, texts)
        first_s = time.perf_counter() - begun
        running.kill()
        await asyncio.to_thread(running.wait)
        begun = time.perf_counter()
        with _process("--listen", address) as (again, _):
            listens_s = time.perf_counter() - begun
            while True:
                try:
                    async with cc.connect(address, name="operator") as operator:
                        if (await operator.ask("state"))["subscriptions"] == count:
                            break
                except cc.ContentcastError:
                    pass
                await asyncio.sleep(0.1)
            took_s = time.perf_counter() - begun
            memory = _megabytes(again.pid)
            await client.publish(market.space, market.events(1).to_pylist()[0])
            matched_s = time.perf_counter() - begun
            await client.close()
    return {
        "subscriptions": count,
        "subscribed in s": first_s,
        "listens again after s": listens_s,
        "all stand again after s": took_s,
        "first event accepted after s": matched_s,
        "MB": memory,
    }
