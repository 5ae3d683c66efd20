"""A broker over HTTP, in its own event loop: /metrics for Prometheus, /healthz, /readyz, and /state as JSON.

Metrics are read from plain counters when they are asked for.
Rule: there is a label for a link, a space and a broker, and never one for a client or a subscription.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from contentcast.live.listening import taken
from contentcast.live.looking.inspection import state
from contentcast.live.settings.address import read_http
from contentcast.model import ContentcastError

if TYPE_CHECKING:
    from contentcast.live.broker import Broker


class Metrics:
    """A collector in the sense of prometheus_client."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def collect(self) -> Iterator[Metric]:
        broker = self._broker
        told = state(broker)
        for name, what in (
            ("published", "Events that clients published here, once each"),
            ("delivered", "Events handed to clients, once for each client, durable subscriptions included"),
            ("missed", "Events left out for slow clients"),
            ("steps", "Steps of matching"),
            ("inputs", "Inputs of the router"),
            ("turns", "Wake-ups that brought something"),
            ("failures", "Messages that could not be handled"),
            ("refused", "Connections that were refused"),
        ):
            yield CounterMetricFamily(f"contentcast_{name}", what, value=told[name])
        for name, what in (
            ("subscriptions", "Subscriptions of clients here, durable ones included"),
            ("client_count", "Clients connected here"),
        ):
            yield GaugeMetricFamily(f"contentcast_{name.removesuffix('_count')}", what, value=told[name])
        yield GaugeMetricFamily("contentcast_ready", "1 when it serves", value=int(told["ready"]))
        for name, what in (("bytes_in", "Bytes that came"), ("bytes_out", "Bytes that were sent")):
            family = CounterMetricFamily(f"contentcast_link_{name}", what, labels=["link"])
            for link, each in told["links"].items():
                family.add_metric([link], each[name])
            yield family
        queued = GaugeMetricFamily("contentcast_link_queued_bytes", "Bytes that wait for a link", labels=["link"])
        for link, each in told["links"].items():
            queued.add_metric([link], each["queued_bytes"])
        yield queued
        for name, what, label, meters in broker.witness.meters.histograms():
            histogram = HistogramMetricFamily(name, what, labels=[label])
            for each, meter in sorted(meters.items()):
                histogram.add_metric([each], meter.buckets(), sum_value=meter.seconds)
            yield histogram
        if "durable" in told:
            for name, what in (
                ("subscriptions", "Durable subscriptions here"),
                ("waiting", "Events that wait for durable subscribers here, all together"),
                ("kept", "Batches that other brokers do not have yet"),
            ):
                yield GaugeMetricFamily(f"contentcast_durable_{name}", what, value=told["durable"][name])
        waiting = sum(each.connection.queued for each in broker.serving.sessions.values())
        yield GaugeMetricFamily("contentcast_client_queued_bytes", "Bytes that wait for clients, all together", value=waiting)


class Http:
    def __init__(self, runner: web.AppRunner, address: str) -> None:
        self._runner = runner
        self.address = address

    async def close(self) -> None:
        await self._runner.cleanup()


async def serve_http(broker: Broker, where: str) -> Http:
    """`where`: host:port; port 0 takes a free one."""
    address = read_http(where)
    registry = CollectorRegistry()
    registry.register(Metrics(broker))

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        return web.Response(text="ready\n" if broker.is_ready else "not ready\n", status=200 if broker.is_ready else 503)

    async def tell_state(_: web.Request) -> web.Response:
        return web.json_response(state(broker, with_counts=True))

    app = web.Application()
    routes: list[tuple[str, Any]] = [("/metrics", metrics), ("/healthz", healthz), ("/readyz", readyz), ("/state", tell_state)]
    for path, handler in routes:
        app.router.add_get(path, handler)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, address.host, address.port).start()
    except OSError as reason:
        await runner.cleanup()
        raise ContentcastError(f"http {where}: cannot listen there: {taken(reason)}") from None
    bound = runner.addresses[0]
    return Http(runner, f"http://{bound[0]}:{bound[1]}")
