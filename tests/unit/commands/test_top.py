"""What `contentcast top` shows of a broker."""

from __future__ import annotations

import io

from rich.console import Console

from contentcast.commands.live.top import LINK_HEADINGS, _picture

LINK = {
    "delay_ms": 12.25,
    "delay": {"p99_ms": 148.71},
    "passing": {"per_s": 123_456.0, "p50_ms": 12.41, "p99_ms": 148.71},
    "messages_in": 1,
    "messages_out": 2,
    "queued_bytes": 123_456,
}
STATE = {
    "broker": "berlin",
    "up_s": 17,
    "client_count": 1,
    "subscriptions": 0,
    "missed": 0,
    "published": 0,
    "delivered": 0,
    "by_space": {},
    "clients": [],
    "links": {"frankfurt": LINK},
}


def test_no_heading_and_no_number_is_cut_in_eighty_columns() -> None:
    told = io.StringIO()
    Console(file=told, width=80).print(_picture(STATE, None))
    assert "…" not in told.getvalue()
    for word in ("frankfurt", "123,456", "148.71", *" ".join(LINK_HEADINGS).split()):
        assert word in told.getvalue()
