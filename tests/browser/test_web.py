"""The web page in a real browser: what it shows of live brokers, why, keyboard and phone, and strangers' names as text."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import contentcast as cc
from contentcast.live.broker import Broker
from contentcast.live.client.watching import Watcher
from contentcast.web.lookout import Lookout
from contentcast.web.server import Server, Where
from contentcast.web.snapshot import Snapshots
from tests.browser.chromium import BROWSER, Chromium
from tests.live.stories import TRADE, Net, story, until, wanted_at

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine (on Debian: apt-get install chromium)")

HOSTILE = "<img src=x onerror=\"document.title='stolen'\">"


@asynccontextmanager
async def shown(broker: Broker, folder: Path, **screen: Any) -> AsyncIterator[Chromium]:
    """The page of this broker's network, open in a browser."""
    lookout = Lookout(Watcher([str(broker.addresses[0])], follow=True, name="web"), Snapshots(), 0.1, lambda line: None)
    async with Server(Where.read("127.0.0.1:0"), lookout, {}) as server, Chromium(folder) as page:
        await page.open(server.url, **screen)
        yield page


async def ask(page: Chromium, event: str) -> None:
    value = json.dumps(event)
    await page.says(f"document.getElementById('event').value = {value}; document.getElementById('question').requestSubmit()")


async def answers(page: Chromium, text: str) -> str:
    """All of the answer, once this is in it."""
    await shows(page, f"document.getElementById('answer').innerText.includes({json.dumps(text)})")
    return str(await page.says("document.getElementById('answer').innerText"))


async def judge_the_first(page: Chromium) -> None:
    await page.says("document.querySelector('#subscriptions td button:not([hidden])').click()")


async def shows(page: Chromium, script: str) -> None:
    """The expression becomes true in the page; while what it looks for is not there yet, it is not."""

    async def fact() -> bool:
        return bool(await page.says(f"(() => {{ try {{ return {script}; }} catch {{ return false; }} }})()"))

    try:
        await until(fact)
    except AssertionError:
        text = await page.says("document.body.innerText")
        raise AssertionError(f"never true: {script}\n{text}\n{page.complaints}") from None


def cells(table: str) -> str:
    return f"[...document.querySelectorAll('#{table} tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))"


@asynccontextmanager
async def busy_pair(net: Net) -> AsyncIterator[tuple[Broker, Broker]]:
    """Two brokers, a client with a hostile name and predicate, a hostile space, and events that flow."""
    a, b, publisher, subscriber = await net.pair()
    await publisher.declare(cc.Space(HOSTILE, line="string"))
    await subscriber.subscribe("trades", "price < 120", deliver=lambda event: None)
    stranger = await net.client(b, name=HOSTILE)
    quoted = HOSTILE.replace("'", "''")
    await stranger.subscribe("trades", f"issue = '{quoted}'", deliver=lambda event: None)
    await wanted_at(a, "b", 2)

    async def pour() -> None:
        while True:
            await publisher.publish("trades", [TRADE] * 5)
            await asyncio.sleep(0.02)

    pouring = asyncio.create_task(pour())
    try:
        yield a, b
    finally:
        pouring.cancel()
        await asyncio.gather(pouring, return_exceptions=True)


@story
async def test_it_shows_the_network_and_strangers_names_are_text(tmp_path: Path) -> None:
    async with Net() as net, busy_pair(net) as (a, _), shown(a, tmp_path) as page:
        await shows(page, "document.querySelectorAll('#network .broker.up').length === 2")
        await shows(page, f"{cells('brokers')}.map((row) => row[0]).join() === 'a,b'")
        await shows(page, f"{cells('links')}.some((row) => row[0] === 'a → b' && Number(row[2].replace(',', '')) > 0)")
        wanted = f"{cells('subscriptions')}.some((row) => row[0] === {HOSTILE!r} && row[3].includes('onerror'))"
        await shows(page, wanted)
        await shows(page, f"{cells('spaces')}.some((row) => row[0] === {HOSTILE!r})")
        assert await page.says("document.title") == "contentcast"
        assert await page.says("[...document.images].map((each) => each.getAttribute('src')).join()") == "/icon.svg"
        assert page.complaints == []
        assert all(each.startswith("http://127.0.0.1:") for each in page.asked), page.asked


@story
async def test_a_broker_that_goes_is_shown_as_down(tmp_path: Path) -> None:
    async with Net() as net, busy_pair(net) as (a, b), shown(a, tmp_path) as page:
        await shows(page, "document.querySelectorAll('#network .link.up').length === 1")
        await b.stop()
        await shows(page, "document.querySelector('#network .broker.down title')?.textContent === 'b: down'")
        await shows(page, "document.querySelectorAll('#network .link.down').length === 1")
        await shows(page, "document.getElementById('problems').innerText.includes('broker b: no broker answers')")
        await shows(page, "document.querySelector('#news').textContent.startsWith('1 of 2 brokers up')")


@story
async def test_why_by_keyboard_shows_the_way_and_the_failed_test(tmp_path: Path) -> None:
    async with Net() as net, busy_pair(net) as (a, _), shown(a, tmp_path) as page:
        await shows(page, "document.getElementById('space').options.length === 2")
        assert await page.says("document.getElementById('space').value") == "trades", "where most is published"
        await page.says("document.getElementById('event').focus()")
        await page.command("Input.insertText", text='{"issue": "IBM", "price": 119.5}')
        await page.key("Tab")
        assert await page.says("document.activeElement.textContent") == "Ask"
        await page.key("Enter")
        said = await answers(page, "It enters at a, and crosses a → b")
        assert "1 would get it" in said
        assert "1 would not" in said
        assert f"{HOSTILE} at b" in said
        assert 'and the event has "IBM"' in said
        assert await page.says("document.querySelectorAll('#network .link.taken, #network .broker.gets').length") == 2
        await ask(page, "{")
        await shows(page, "document.querySelector('#answer .wrong')?.textContent?.startsWith('The event is no JSON')")
        await judge_the_first(page)
        await answers(page, "It has accepted 0 events.")
        assert await page.says("document.title") == "contentcast"
        assert page.complaints == []


@story
async def test_ints_of_64_bits_are_asked_and_shown_as_they_are(tmp_path: Path) -> None:
    """JavaScript itself would make 9007199254740992 of it."""
    async with Net() as net:
        a, client = await net.alone()
        await client.subscribe("trades", "volume = 9007199254740993", deliver=lambda event: None)
        await client.subscribe("trades", "volume = 9007199254740995", deliver=lambda event: None)
        async with shown(a, tmp_path) as page:
            await shows(page, "document.getElementById('space').options.length === 1")
            await ask(page, '{"volume": 9007199254740993}')
            said = await answers(page, "It enters at a")
            assert "1 would get it" in said
            assert "fails: volume = 9007199254740995, and the event has 9007199254740993" in said
            await client.publish("trades", {"volume": 9007199254740997})
            await judge_the_first(page)
            await answers(page, "the events have 9007199254740997")


@story
async def test_two_rows_of_one_key_stay_two(tmp_path: Path) -> None:
    """A broker may tell what it likes; the page of whoever looks at it for a day must not grow."""
    draw = "keyed(list, ['x', 'x', 'y'], (each) => each, () => make('li'), () => {})"
    async with Net() as net:
        a, _ = await net.alone()
        async with shown(a, tmp_path) as page:
            await shows(page, "document.getElementById('space').options.length === 1")
            drawn = f"const list = make('ul'); {(draw + ';') * 5} return list.children.length;"
            count = await page.says(f"(() => {{ {drawn} }})()")
            assert count == 3


@story
async def test_brokers_are_chosen_and_tables_sorted_by_keyboard(tmp_path: Path) -> None:
    async with Net() as net, busy_pair(net) as (a, _), shown(a, tmp_path) as page:
        await shows(page, "document.querySelectorAll('#network .broker').length === 2")
        await page.says("document.querySelectorAll('#network .broker')[1].focus()")
        await page.key("Enter")
        await shows(page, "document.querySelector('#brokers tr.chosen th')?.textContent === 'b'")
        at = await page.says("snapshot.at")
        await shows(page, f"snapshot.at !== {at!r}")
        assert await page.says("document.activeElement.getAttribute('aria-pressed')") == "true", "focus outlives a snapshot"
        await page.says("document.querySelector('#brokers th button').focus()")
        await page.key("Enter")
        await page.key("Enter")
        assert await page.says("document.querySelector('#brokers th').getAttribute('aria-sort')") == "descending"
        await shows(page, f"{cells('brokers')}.map((row) => row[0]).join() === 'b,a'")


@pytest.mark.parametrize(("width", "dark"), [(375, False), (375, True), (1280, False), (1280, True)])
@story
async def test_nothing_is_wider_than_the_screen_and_text_stands_out(width: int, dark: bool, tmp_path: Path) -> None:
    async with Net() as net, busy_pair(net) as (a, _), shown(a, tmp_path, width=width, dark=dark) as page:
        await shows(page, "document.querySelectorAll('#subscriptions tbody tr').length === 2")
        assert await page.says("document.documentElement.scrollWidth") <= width
        ink, paper = [
            await page.says(f"getComputedStyle(document.body).{name}.match(/\\d+/g).map(Number)")
            for name in ("color", "backgroundColor")
        ]
        assert abs(sum(ink) - sum(paper)) > 3 * 150
        assert (sum(paper) < sum(ink)) is dark


@story
async def test_complaints_would_be_seen(tmp_path: Path) -> None:
    """The policy of the page stops a script that got into it, and the test would hear of it."""
    async with Net() as net:
        a = await net.broker("a")
        async with shown(a, tmp_path) as page:
            await shows(page, "document.querySelectorAll('#network .broker').length === 1")
            await page.says("document.body.insertAdjacentHTML('beforeend', `<img src=x onerror=\"document.title='stolen'\">`)")
            await until(lambda: page.complaints)
            assert "Content Security Policy" in " ".join(page.complaints)
            assert await page.says("document.title") == "contentcast"
