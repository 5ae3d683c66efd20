"""`contentcast lan` as a user runs it: programs that meet on loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.lan.loopback import TRADES, Lan

PROGRAM = [sys.executable, "-m", "contentcast.cli", "lan"]
MAPPING = """
otherwise = ["udp_ipm://239.192.77.20:{port}"]
control = "udp_ipm://239.192.77.0:{port}"

[[rows]]
space = "trades"
group = "udp_ipm://239.192.77.21:{port}"
others = "ANY"
filter.issue = "issue = 'IBM'"
"""


def run(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *words], input=given, capture_output=True, text=True, timeout=60, check=False)


def test_three_terminals(tmp_path: Path) -> None:
    lan, space = Lan(), tmp_path / "trades.json"
    TRADES.save(space)
    address = ["--lan", lan.url(), "--space", str(space)]
    listening = subprocess.Popen(
        [*PROGRAM, "subscribe", "price < 3", *address, "--count", "3", "--reliable"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert listening.stderr is not None
    assert "subscribed; multicast on 127.0.0.1" in listening.stderr.readline()
    file = tmp_path / "mapping.toml"
    file.write_text(MAPPING.format(port=lan.port))
    done = run("map", "set", str(file), *address)
    assert (done.returncode, done.stdout) == (0, done.stdout), done.stderr
    assert "is used by all 2 servers" in done.stdout
    shown = run("map", "show", *address, "--wait", "30")
    assert "udp_ipm://239.192.77.21" in shown.stdout, shown.stderr
    assert "used by 1 of 1 others" in shown.stderr
    events = "\n".join(json.dumps({"issue": "IBM", "price": float(at)}) for at in range(10))
    published = run("publish", *address, given=events)
    assert "10 events, 3 of them sent" in published.stderr
    out, _ = listening.communicate(timeout=30)
    assert [json.loads(line)["price"] for line in out.splitlines()] == [0.0, 1.0, 2.0]


def test_events_are_published_as_they_come_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    """Nothing was sent before stdin ended, and while the program waited for a line it did not hear Ctrl-C."""
    lan, space = Lan(), tmp_path / "trades.json"
    TRADES.save(space)
    address = ["--lan", lan.url(), "--space", str(space)]
    pipe = subprocess.PIPE
    words = [*PROGRAM, "subscribe", *address, "--count", "2"]
    listening = subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True)
    assert listening.stdout is not None
    assert listening.stderr is not None
    assert "subscribed" in listening.stderr.readline()
    publishing = subprocess.Popen(
        [*PROGRAM, "publish", *address, "--wait", "60"],
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert publishing.stdin is not None
    for price in (1.0, 2.0):
        publishing.stdin.write(f'{{"price": {price}}}\n')
        publishing.stdin.flush()
        assert json.loads(listening.stdout.readline()) == {"price": price}
    assert listening.wait(60) == 0
    os.killpg(publishing.pid, signal.SIGINT)
    assert publishing.wait(60) == 130
    assert "Traceback" not in publishing.communicate()[1]


def test_a_line_that_is_wrong_is_named_and_what_went_out_before_it_is_counted(tmp_path: Path) -> None:
    lan, space = Lan(), tmp_path / "trades.json"
    TRADES.save(space)
    lines = '{"price": 1}\n' * 10_000 + '{"price": "much"}\n'
    done = run("publish", "--lan", lan.url(), "--space", str(space), "--wait", "0", given=lines)
    assert done.returncode == 2
    assert "event 10000 (line 10001), attribute price: 'much' is a string, not a float; " in done.stderr
    count = int(done.stderr.split("float; ")[1].split()[0].replace(",", ""))
    assert 0 < count < 10_000


def test_a_mapping_is_not_set_where_nobody_would_keep_it(tmp_path: Path) -> None:
    lan, space, file = Lan(), tmp_path / "trades.json", tmp_path / "mapping.toml"
    TRADES.save(space)
    file.write_text(MAPPING.format(port=lan.port))
    done = run("map", "set", str(file), "--lan", lan.url(), "--space", str(space), "--wait", "1")
    assert done.returncode == 2
    assert f"no other server was heard at {lan.url()}" in done.stderr


def test_a_publisher_leaves_when_its_readers_have_everything(tmp_path: Path) -> None:
    lan, space = Lan(), tmp_path / "trades.json"
    TRADES.save(space)
    address = ["--lan", lan.url(), "--space", str(space)]
    count = 30_000
    with (tmp_path / "out").open("w") as out:
        words = [*PROGRAM, "subscribe", *address, "--count", str(count), "--reliable"]
        listening = subprocess.Popen(words, stdout=out, stderr=subprocess.PIPE, text=True)
    assert listening.stderr is not None
    assert "subscribed" in listening.stderr.readline()
    events = "\n".join(f'{{"price": {at}}}' for at in range(count))
    published = run("publish", *address, given=events)
    assert published.returncode == 0, published.stderr
    assert listening.wait(60) == 0
    lines = (tmp_path / "out").read_text().splitlines()
    assert [int(json.loads(each)["price"]) for each in lines] == list(range(count))


def test_what_is_wrong_is_said_in_one_line(tmp_path: Path) -> None:
    done = run("subscribe", "TRUE")
    assert (done.returncode, done.stderr) == (
        2,
        "contentcast: lan subscribe: of which space? Add --space FILE, or --name NAME if others have declared it\n",
    )
    done = run("join", "--lan", "lan://239.192.10.0?interface=10.9.8.7")
    assert done.returncode == 2
    assert "add key=FILE" in done.stderr
    for address, said in (
        ("lan://239.192.10.0?interface=10.9.8.7&insecure=yes", "no interface has the address 10.9.8.7"),
        ("lan://239.192.10.0?hold_back=true", "hold_back is yes or no, got 'true'"),
        ("lan://239.192.10.0?mode=fanout&peer=nobody.invalid:7000", "the peer nobody.invalid:7000 is not known here"),
    ):
        done = run("join", "--seconds", "1", "--lan", address)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert said in done.stderr


def test_a_subscriber_ends_when_nobody_reads_what_it_prints(tmp_path: Path) -> None:
    """As behind `| head -1`."""
    lan, space = Lan(), tmp_path / "trades.json"
    TRADES.save(space)
    address = ["--lan", lan.url(), "--space", str(space)]
    pipe = subprocess.PIPE
    listening = subprocess.Popen([*PROGRAM, "subscribe", *address], stdout=pipe, stderr=pipe, text=True)
    assert listening.stdout is not None
    assert listening.stderr is not None
    assert "subscribed" in listening.stderr.readline()
    assert run("publish", *address, given='{"price": 1}\n').returncode == 0
    assert json.loads(listening.stdout.readline()) == {"price": 1.0}
    listening.stdout.close()
    assert run("publish", *address, given='{"price": 2}\n').returncode == 0
    assert listening.wait(60) == 0
    assert listening.stderr.read() == ""


def test_a_mapping_is_planned_from_a_workload(tmp_path: Path) -> None:
    folder = str(tmp_path / "video")
    made = [sys.executable, "-m", "contentcast.cli", "workload", "video", "--events", "500", "--subscriptions", "20"]
    subprocess.run([*made, "--out", folder], check=True, capture_output=True, timeout=60)
    done = run("map", "plan", "--workload", folder, "--by", "media_source", "--groups", "2")
    assert done.returncode == 0, done.stderr
    assert "fnasa.simula.no" in done.stdout
    assert "one group for all: servers receive and discard" in done.stderr
