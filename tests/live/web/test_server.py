"""The web page's server against real brokers: one look for all viewers, none without, why, and who may ask."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import contentcast as cc
from contentcast.live.broker import Broker
from contentcast.live.client.watching import Look, Watcher
from contentcast.live.settings.access import Access, Rights
from contentcast.web import lookout as lookouts
from contentcast.web.lookout import Lookout
from contentcast.web.server import PAGE, Server, Where
from contentcast.web.snapshot import Snapshots
from tests.live.stories import TRADE, Net, Process, Proxy, story, until, wanted_at

HOSTILE = "<img src=x onerror=alert(1)>"


class Page:
    """What a browser does, without one."""

    def __init__(self, server: Server, lookout: Lookout, web: aiohttp.ClientSession, said: list[str]) -> None:
        self.server, self.lookout, self.web, self.said = server, lookout, web, said

    async def snapshot(self) -> dict[str, Any]:
        async with self.web.get("/snapshot") as answer:
            assert answer.status == 200
            told: dict[str, Any] = await answer.json()
            return told

    async def why(self, **asked: Any) -> tuple[int, dict[str, Any]]:
        async with self.web.post("/why", json=asked) as answer:
            return answer.status, await answer.json()

    async def sees(self, broker: str) -> dict[str, Any]:
        """The row of a broker, once there is one."""

        async def row() -> dict[str, Any] | None:
            return next((each for each in (await self.snapshot())["brokers"] if each["name"] == broker), None)

        found: dict[str, Any] = await until(row)
        return found


@asynccontextmanager
async def page_of(*brokers: Broker | str, every_s: float = 0.02, follow: bool = True, **options: Any) -> AsyncIterator[Page]:
    urls = [each if isinstance(each, str) else str(each.addresses[0]) for each in brokers]
    said: list[str] = []
    lookout = Lookout(Watcher(urls, follow=follow, name="web", **options), Snapshots(), every_s, said.append)
    async with (
        Server(Where.read("127.0.0.1:0"), lookout, options) as server,
        aiohttp.ClientSession(server.url.rstrip("/")) as web,
    ):
        yield Page(server, lookout, web, said)


async def event_of(stream: aiohttp.ClientResponse) -> dict[str, Any]:
    """The next snapshot of a viewer."""
    while True:
        line = await stream.content.readline()
        assert line, "the stream has ended"
        if line.startswith(b"data: "):
            found: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
            return found


@story
async def test_one_address_shows_the_whole_network() -> None:
    async with Net() as net:
        a, _, publisher, subscriber = await net.pair()
        stream = await subscriber.events("trades", "price < 120").ready()
        await wanted_at(a, "b")
        await publisher.publish("trades", [TRADE, TRADE, TRADE | {"price": 500.0}])
        await anext(stream)
        async with page_of(a) as page:
            told = await page.snapshot()
            assert [(each["name"], each["status"]) for each in told["brokers"]] == [("a", "up"), ("b", "up")]
            (link,) = told["links"]
            assert (link["one"], link["other"], link["status"]) == ("a", "b", "up")
            assert {(each["from"], each["to"]) for each in link["flows"]} == {("a", "b"), ("b", "a")}
            assert [each["name"] for each in told["spaces"]] == ["trades"]
            (counted,) = told["subscriptions"]
            assert (counted["predicate"], counted["accepted"], counted["broker"]) == ("price < 120", 2, "b")
            assert told["totals"]["clients"] == 2, "without the page itself"
        (state_a, state_b) = (await publisher.ask("state"), await subscriber.ask("state"))
        assert (state_a["published"], state_a["sent"], state_b["received"]) == (3, 2, 2)
        assert state_b["links"]["a"]["events_in"] == 2


@story
async def test_without_follow_only_those_that_were_named_are_looked_at() -> None:
    async with Net() as net:
        a, *_ = await net.pair()
        async with page_of(a, follow=False) as page:
            told = await page.snapshot()
            assert [(each["name"], each["status"]) for each in told["brokers"]] == [("a", "up"), ("b", "unwatched")]


@story
async def test_many_viewers_ask_brokers_no_more_than_one_and_nobody_asks_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broker counts how often it is asked for its state, and each viewer sees the same snapshots."""
    async with Net() as net:
        a = await net.broker("a")
        asked: list[float] = []
        answer = a.answer

        def counting(session: Any, ask: Any) -> dict[str, Any]:
            asked.append(asyncio.get_running_loop().time())
            return answer(session, ask)

        a.answer = counting  # type: ignore[method-assign]
        monkeypatch.setattr(lookouts, "LINGER_S", 0.05)
        async with page_of(a) as page:
            assert asked == [], "no viewers, no questions"
            streams = [await page.web.get("/events") for _ in range(12)]
            first = [await event_of(each) for each in streams]
            seen = [first, *[[await event_of(each) for each in streams] for _ in range(5)]]
            snapshots = {each["at"] for row in seen for each in row}
            assert len(asked) <= len(snapshots) + 2, "those that came meanwhile"
            assert page.server.viewers == 12
            for each in streams:
                each.close()
            await until(lambda: page.server.viewers == 0)
            await until(lambda: not a.serving.sessions)  # it has hung up
            before = len(asked)
            await until(lambda: asyncio.get_running_loop().time() > asked[-1] + 0.3)
            assert len(asked) == before
            assert (await page.snapshot())["totals"]["brokers_up"] == 1, "and it looks again when somebody comes"


@story
async def test_a_broker_that_is_gone_is_told_and_tried_again() -> None:
    async with Net() as net:
        a = await net.broker("a")
        async with Proxy(await net.broker("c")) as proxy, page_of(a, proxy.url, follow=False) as page:
            assert (await page.sees("c"))["status"] == "up"
            server = proxy._server
            port = server.sockets[0].getsockname()[1]
            server.close()
            proxy.cut()

            async def is_(status: str) -> bool:
                return bool((await page.sees("c"))["status"] == status)

            await until(lambda: is_("down"))
            assert (await page.sees("a"))["status"] == "up"
            assert any(each.startswith("broker c cannot be reached: ") for each in page.said)
            proxy._server = await asyncio.start_server(proxy._serve, "127.0.0.1", port)
            await until(lambda: is_("up"))
            assert page.said[-1] == "broker c is back"


@story
async def test_a_broker_that_is_back_at_another_address_or_says_its_name_at_last_is_told() -> None:
    said: list[str] = []
    lookout = Lookout(Watcher(["contentcast://127.0.0.1:1"]), Snapshots(), 1.0, said.append)
    old, new, nameless = (f"contentcast://127.0.0.1:{port}" for port in (1, 2, 3))
    for looks in (
        [Look(old, "c", None, "no broker answers"), Look(nameless, "", None, "no broker answers")],
        [Look(new, "c", {}), Look(nameless, "d", {})],
        [Look(new, "c", {}), Look(nameless, "d", {})],
    ):
        lookout.looks = looks
        lookout._tell_changes()
    assert said[2:] == ["broker c is back", "broker d is back"]
    await lookout.close()


@story
async def test_a_broker_that_does_not_answer_does_not_hold_up_the_others() -> None:
    async with Net() as net:
        a = await net.broker("a")
        async with Proxy(await net.broker("c")) as proxy, page_of(a, proxy.url, follow=False) as page:
            await page.sees("c")
            proxy.answers = False

            async def silent() -> bool:
                return bool((await page.sees("c"))["status"] == "silent")

            await until(silent)
            row = await page.sees("c")
            assert row["problem"].startswith("no answer for ")
            assert row["protocol"] == "link-matching", "what it said last"
            assert (await page.sees("a"))["status"] == "up"


@story
async def test_why_says_who_would_get_it_over_which_links_and_the_failed_tests() -> None:
    async with Net() as net:
        a, b, _, subscriber = await net.pair()
        wanted = await subscriber.subscribe("trades", "price < 120", deliver=lambda event: None)
        hostile = await net.client(b, name=HOSTILE)
        strange = await hostile.subscribe("trades", f"issue = '{HOSTILE}'", deliver=lambda event: None)
        await wanted_at(a, "b", 2)
        async with page_of(a) as page:
            status, told = await page.why(space="trades", event=TRADE, broker="a")
            assert status == 200, told
            assert told["links"] == [{"from": "a", "to": "b"}]
            assert told["gets"] == [{"broker": "b", "client": subscriber.name, "subscription": str(wanted.id)}]
            (missed,) = told["misses"]
            assert (missed["client"], missed["subscription"]) == (HOSTILE, str(strange.id))
            assert missed["failed"] == [{"test": f"issue = '{HOSTILE}'", "value": "IBM", "shown": '"IBM"'}]
            assert b.deliveries.events == a.serving.published == 0, "nothing is published"
            _, judged = await page.why(space="trades", subscription=str(strange.id), broker="a")
            assert (judged["client"], judged["accepted"]) == (HOSTILE, 0)


@story
async def test_a_question_does_not_wait_for_the_next_snapshot() -> None:
    """With `--every 60` it waited up to a minute, for the viewers' next look."""
    async with Net() as net:
        a, client = await net.alone()
        async with page_of(a, every_s=600.0) as page:
            await page.snapshot()
            viewer = await page.web.get("/events")
            await event_of(viewer)
            wanted = await client.subscribe("trades", "price < 120", deliver=lambda event: None)
            async with asyncio.timeout(60):
                for _ in range(2):
                    status, told = await page.why(space="trades", event={"price": 500.0})
                    assert status == 200, told
                    assert [each["subscription"] for each in told["misses"]] == [str(wanted.id)], "as they are now"
            viewer.close()


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"space": "trades", "event": {"prise": 5.0}}, "did you mean 'price'?"),
        ({"space": "trades", "event": 5}, "event is one event"),
        ({"space": "trade", "event": {}}, "trade"),
        ({"event": {}}, "which space?"),
        ({"space": "trades", "event": {}, "broker": "x"}, "no broker 'x' answers"),
        ({"space": "trades", "subscription": HOSTILE}, "the id of a subscription is a number"),
        ({"space": "trades", "subscription": "9" * 5000}, "the id of a subscription is a number"),
        ({"space": "trades", "subscription": "9" * 19}, "no broker has this subscription"),
        ({"space": "trades", "subscription": "7"}, "no broker has this subscription"),
    ],
)
def test_a_wrong_question_is_answered_with_what_is_wrong(asked: dict[str, Any], complaint: str) -> None:
    @story
    async def told() -> None:
        async with Net() as net:
            a, _ = await net.alone()
            async with page_of(a) as page:
                status, told = await page.why(**asked)
                assert status == 400
                assert complaint in told["problem"]

    told()


@story
async def test_a_question_that_is_long_on_its_way_keeps_nobody_from_asking() -> None:
    async with Net() as net:
        a, _ = await net.alone()
        async with page_of(a) as page:
            host, port = page.server.url.removeprefix("http://").rstrip("/").split(":")
            answers, slow = await asyncio.open_connection(host, int(port))
            head = f"POST /why HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 99\r\n"
            slow.write(f"{head}Expect: 100-continue\r\n\r\n".encode())
            await answers.readuntil(b"100 Continue")  # the server waits for the rest of it
            await asyncio.sleep(0)
            status, told = await page.why(space="trades", event={})
            assert status == 200, told
            slow.close()


@story
async def test_a_question_that_is_nested_too_deep_is_no_json() -> None:
    async with Net() as net:
        a, _ = await net.alone()
        async with page_of(a) as page:
            kind = {"Content-Type": "application/json"}
            async with page.web.post("/why", data=b"[" * 100_000, headers=kind) as answer:
                assert answer.status == 400
                assert (await answer.json())["problem"].startswith("the question is no JSON")


@story
async def test_who_may_not_look_inside_a_broker_sees_why() -> None:
    async with Net() as net:
        a = await net.broker("a", access=Access((), {"*": Rights(subscribe={"*": "TRUE"})}))
        async with page_of(a) as page:
            row = await page.sees("a")
            assert row["status"] == "down"
            assert "see the right operate" in row["problem"]


@story
async def test_other_sites_get_nothing_and_nothing_can_be_changed() -> None:
    async with Net() as net:
        a, _ = await net.alone()
        async with page_of(a) as page:
            port = page.server.url.rstrip("/").rpartition(":")[2]
            for host, status in [("evil.example", 421), (f"evil.example:{port}", 421), ("localhost:9", 200), ("[::1]:5", 200)]:
                for path in (*PAGE, "/snapshot"):
                    async with page.web.get(path, headers={"Host": host}) as answer:
                        assert answer.status == status, (host, path)
                        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")
                        assert answer.headers["X-Content-Type-Options"] == "nosniff"
                        assert "Access-Control-Allow-Origin" not in answer.headers
            question = json.dumps({"space": "trades", "event": {}})
            json_kind = {"Content-Type": "application/json"}
            own = {"Origin": page.server.url.rstrip("/")}
            for headers, status in [
                (json_kind, 200),
                (json_kind | own, 200),
                (json_kind | {"Origin": "http://evil.example"}, 403),
                (json_kind | {"Origin": "null"}, 403),
                ({"Content-Type": "text/plain"}, 403),
                (json_kind | {"Host": "evil.example"}, 421),
            ]:
                async with page.web.post("/why", data=question, headers=headers) as answer:
                    assert answer.status == status, headers
            for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"):
                for path in (*PAGE, "/snapshot", "/events"):
                    async with page.web.request(method, path) as answer:
                        assert answer.status == 405, (method, path)
            async with page.web.post("/why", data=b"{" * 300_000, headers=json_kind) as answer:
                assert answer.status == 413


def test_the_page_holds_nothing_from_elsewhere() -> None:
    """Its three files ask no other host, and write no markup."""
    from importlib.resources import files

    texts = {name: (files("contentcast.web") / "page" / name).read_text(encoding="utf-8") for name in PAGE.values()}
    for name, text in texts.items():
        for address in ("http://", "https://"):
            known = "http://www.w3.org/2000/svg"
            assert address not in text.replace(known, ""), name
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "javascript:"):
        assert word not in texts["page.js"]
    assert "<script>" not in texts["page.html"]
    assert "style=" not in texts["page.html"]


@pytest.mark.parametrize("listen", ["0.0.0.0:8080", "[::]:0", "192.0.2.1:80", "example.org:80"])
def test_beyond_loopback_wants_a_word(listen: str) -> None:
    with pytest.raises(cc.ContentcastError, match="--insecure"):
        Where.read(listen)
    assert Where.read(listen, insecure=True).may_be_called("192.0.2.1:80")


@pytest.mark.parametrize("listen", ["8080", "127.0.0.1", ":8080", "127.0.0.1:x", "http://127.0.0.1:80", "127.0.0.1:80/x"])
def test_an_address_that_is_none_is_said(listen: str) -> None:
    with pytest.raises(cc.ContentcastError, match="--listen is HOST:PORT"):
        Where.read(listen)


def test_a_name_that_was_given_may_be_used() -> None:
    where = Where.read("127.0.0.1:0", ("Brokers.Example",))
    assert where.may_be_called("brokers.example:8080")
    assert where.may_be_called("127.0.0.1:80")
    assert not where.may_be_called("other.example")
    assert not where.may_be_called("")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    running: list[Process] = []

    def begin(*words: str) -> Process:
        running.append(Process(tmp_path, *words))
        return running[-1]

    yield begin
    for each in running:
        each.end()


def test_the_command_serves_says_who_cannot_be_reached_and_ends(start: Any) -> None:
    @story
    async def told() -> None:
        async with Net() as net:
            a, _ = await net.alone()
            process = start("web", f"{a.addresses[0]},contentcast://127.0.0.1:1", "--listen", "127.0.0.1:0")
            url = (await process.line("the page is on ")).split()[-1]
            async with aiohttp.ClientSession() as web:
                async with web.get(url + "snapshot") as answer:
                    told = await answer.json()
                assert {each["status"] for each in told["brokers"]} == {"up", "down"}
                stream = await web.get(url + "events")
                await event_of(stream)
                process.signal(signal.SIGTERM)  # ends while somebody watches
                assert await process.ended() == 0
            assert "contentcast: broker contentcast://127.0.0.1:1 cannot be reached: no broker answers" in process.complained()
            assert "Traceback" not in process.complained()

    told()


def test_the_command_refuses_to_listen_for_everybody(start: Any) -> None:
    @story
    async def told() -> None:
        process = start("web", "--listen", "0.0.0.0:0")
        assert await process.ended() == 2
        assert "--insecure" in process.complained()

    told()
