"""Servers for the tests, each one process on loopback: a Kafka broker (KRaft), an S3 server (moto)."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from contentcast.spark.java import find_java
from requirements import jars

START_LIMIT_S = 120.0
# Ids of a KRaft cluster are 16 bytes in base64.
CLUSTER_ID = "Y29udGVudGNhc3Qtc3BhcmsA"[:22]

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
num.partitions={partitions}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


def listens(port: int) -> bool:
    with socket.socket() as trial:
        trial.settimeout(1.0)
        return trial.connect_ex(("127.0.0.1", port)) == 0


class _Server:
    process: subprocess.Popen[Any] | None = None
    log: Path

    def _start(self, words: list[str], port: int, environment: dict[str, str] | None = None) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment)
        end = time.monotonic() + START_LIMIT_S
        while not listens(port):
            assert self.process.poll() is None, self.log.read_text()[-2000:]
            assert time.monotonic() < end, f"nothing listens at {port}"
            time.sleep(0.1)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, way: signal.Signals) -> None:
        if self.process is None:
            return
        self.process.send_signal(way)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


class KafkaBroker(_Server):
    """Broker and controller in one process, which finds its topics again when it was killed and is started anew."""

    def __init__(self, folder: Path, partitions: int = 2) -> None:
        self.port, controller = free_ports(2)
        self.log, self.data = folder / "log", folder / "data"
        self._properties = folder / "server.properties"
        self._properties.write_text(
            PROPERTIES.format(port=self.port, controller=controller, data=self.data, partitions=partitions)
        )
        self._java = [str(find_java().program), "-Xmx320m", "-cp", f"{jars.fetch('kafka-server')}/*"]
        words = ["kafka.tools.StorageTool", "format", "--standalone", "-t", CLUSTER_ID, "-c", str(self._properties)]
        subprocess.run([*self._java, *words], check=True, capture_output=True)

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> KafkaBroker:
        self._start([*self._java, "kafka.Kafka", str(self._properties)], self.port)
        return self


class S3Server(_Server):
    def __init__(self, folder: Path) -> None:
        [self.port] = free_ports(1)
        self.log = folder / "log"

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> S3Server:
        python = os.environ.get("CONTENTCAST_CLUSTER_PYTHON", sys.executable)  # the one that has moto
        self._start([python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)], self.port)
        return self

    def make_bucket(self, name: str) -> None:
        urllib.request.urlopen(urllib.request.Request(f"{self.address}/{name}", method="PUT"), timeout=30).close()
