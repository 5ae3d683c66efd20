"""Who may do what: TLS on both event loops, certificates of brokers and clients, tokens, and rights by content."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import jwt
import pytest
import trustme
import uvloop
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import contentcast as cc
from contentcast.live.broker import Broker
from contentcast.live.errors import LiveError
from contentcast.live.looking.http import Metrics
from contentcast.live.looking.inspection import state
from contentcast.live.looking.log import Log
from contentcast.live.serving.numbering import owned
from contentcast.live.settings.access import Access, Rights
from contentcast.live.settings.address import read_address
from contentcast.live.settings.config import BrokerConfig
from contentcast.live.settings.tls import Tls
from contentcast.wire.client import Hello
from tests.live.stories import LIMIT_S, TRADE, TRADES, Net, knows_space, story, until, wanted_at

SECURE = (read_address("contentcasts://127.0.0.1:0"),)


class Papers:
    """An authority, and the certificates that it has made."""

    def __init__(self, folder: Path, name: str = "network") -> None:
        self._folder = folder
        self._authority = trustme.CA()
        self.authority = folder / f"{name}.pem"
        self._authority.cert_pem.write_to_path(str(self.authority))

    def certificate(self, kind: str, name: str) -> tuple[Path, Path]:
        made = self._authority.issue_cert("127.0.0.1", common_name=name)
        # trustme writes host names only; the broker's name is a URI, so the certificate is made again with it.
        return _with_uri(self._authority, made, f"contentcast://{kind}/{name}", self._folder / f"{kind}-{name}")

    def tls(self, name: str) -> Tls:
        certificate, key = self.certificate("broker", name)
        return Tls(certificate, key, self.authority)


def _with_uri(authority: trustme.CA, made: trustme.LeafCert, uri: str, path: Path) -> tuple[Path, Path]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    old = x509.load_pem_x509_certificate(made.cert_chain_pems[0].bytes())
    signer = serialization.load_pem_private_key(authority.private_key_pem.bytes(), None)
    key = serialization.load_pem_private_key(made.private_key_pem.bytes(), None)
    builder = x509.CertificateBuilder(
        issuer_name=old.issuer,
        subject_name=old.subject,
        public_key=old.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=old.not_valid_before_utc,
        not_valid_after=old.not_valid_after_utc,
    )
    for extension in old.extensions:
        value = extension.value
        if isinstance(value, x509.SubjectAlternativeName):
            value = x509.SubjectAlternativeName([*value, x509.UniformResourceIdentifier(uri)])
        builder = builder.add_extension(value, extension.critical)
    signed = builder.sign(signer, hashes.SHA256())  # type: ignore[arg-type]
    written = path.with_suffix(".pem"), path.with_suffix(".key")
    written[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    written[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    return written


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_events_cross_tls_whole(run: Callable[[Coroutine[Any, Any, None]], None], tmp_path: Path) -> None:
    """Two brokers with mutual TLS, and text of many sizes: what comes is what was sent, byte for byte."""
    papers = Papers(tmp_path)
    texts = ["x" * size + str(size) for size in (0, 1, 100, 10_000, 70_000, 300_000, 1_000_000)]

    async def told() -> None:
        async with asyncio.timeout(LIMIT_S), Net() as net:
            a = await net.broker("a", listen=SECURE, tls=papers.tls("a"))
            b = await net.broker("b", a, listen=SECURE, tls=papers.tls("b"))
            one = await net.client(a, authority=str(papers.authority))
            other = await net.client(b, authority=str(papers.authority))
            await one.declare(TRADES)
            await knows_space(other)
            stream = await other.events("trades", "price < 120").ready()
            await wanted_at(a, "b")
            for text in texts:
                await one.publish("trades", {"issue": text, "price": 1.0})
            for text in texts:
                assert (await anext(stream))["issue"] == text

    run(told())


def test_a_broker_cannot_take_the_name_of_another(tmp_path: Path) -> None:
    papers, strangers = Papers(tmp_path), Papers(tmp_path, "strangers")

    @story
    async def told() -> None:
        async with Net() as net:
            a = await net.broker("a", listen=SECURE, tls=papers.tls("a"))
            thief = await net.broker("b", listen=SECURE, tls=papers.tls("c"))
            thief.neighbours.keep(list(a.addresses))
            await until(lambda: any("refused" in how for how in thief.neighbours.dialled.values()))
            assert "it needs the URI contentcast://broker/b" in next(iter(thief.neighbours.dialled.values()))
            stranger = await net.broker("d", listen=SECURE, tls=strangers.tls("d"))
            stranger.neighbours.keep(list(a.addresses))
            await until(lambda: any("certificate" in how for how in stranger.neighbours.dialled.values()))
            assert not a.neighbours.links

    told()


RIGHTS = {
    "desk-7": Rights(subscribe={"trades": "issue = 'IBM'"}),
    "feed": Rights(publish={"trades": "price < 1000"}, declare=True),
    "chief": Rights(publish={"*": "TRUE"}, subscribe={"*": "TRUE"}, declare=True, operate=True),
}


class Tokens:
    """Who signs tokens: the key, and a token for anybody."""

    def __init__(self) -> None:
        self._key = Ed25519PrivateKey.generate()
        self.public = self._key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def of(self, name: str, lasts_s: float = 600.0) -> str:
        return jwt.encode({"sub": name, "exp": time.time() + lasts_s}, self._key, algorithm="EdDSA")


@story
async def test_rights_by_content() -> None:
    tokens = Tokens()
    async with Net() as net:
        a = await net.broker("a", access=Access((tokens.public,), RIGHTS))
        feed = await net.client(a, token=tokens.of("feed"))
        desk = await net.client(a, token=tokens.of("desk-7"))
        chief = await net.client(a, token=tokens.of("chief"))
        await feed.declare(TRADES)
        got: list[Any] = []
        narrowed = await desk.subscribe("trades", "price < 120", deliver=got.append)
        assert narrowed.narrowed == "issue = 'IBM' AND price < 120.0"
        exact = await desk.subscribe("trades", "issue = 'IBM' AND price < 5", deliver=print)
        assert exact.narrowed is None, "it asks for no more than it may see"
        with pytest.raises(LiveError, match="may see nothing"):
            await desk.subscribe("trades", "issue = 'SAP'", deliver=print)
        everything = await chief.events("trades").ready()
        await feed.publish("trades", [{"issue": "SAP", "price": 5.0}, TRADE])
        assert [await anext(everything), await anext(everything)] == [{"issue": "SAP", "price": 5.0}, TRADE]
        await until(lambda: got)
        assert got == [TRADE]
        with pytest.raises(LiveError, match="event 1: feed may publish to trades only where price < 1000"):
            await feed.publish("trades", [TRADE, TRADE | {"price": 5000.0}])
        for wrong in (
            desk.publish("trades", TRADE),
            feed.subscribe("trades", deliver=print),
            desk.declare(cc.Space("x", y="int")),
        ):
            with pytest.raises(LiveError, match="may not"):
                await wrong
        await feed.advertise("trades", "price < 2000 OR issue = 'IBM'")
        local: Any = a.router
        for each in local.local.advertisements.values():
            (price,) = each.allowed["price"]
            assert price.accepts(999.0)
            assert not price.accepts(1000.0), "advertised within the right only"
        for who, what in ((desk, "TRUE"), (feed, "price > 5000")):
            with pytest.raises(LiveError, match=r"may not publish|may publish nothing"):
                await who.advertise("trades", what)
        with pytest.raises(LiveError, match="see the right operate"):
            await desk.ask("state")
        told = await chief.ask("state")
        assert tokens.of("chief")[:20] not in str(told)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"http": "0.0.0.0:0"}, "http 0.0.0.0:0 is open to other machines"),
        ({"http": "7480"}, "http is HOST:PORT"),
        ({"neighbours": SECURE, "access": Access((), RIGHTS)}, "add authority to \\[tls\\]"),
        ({"join": SECURE, "protocol": "overlay", "access": Access((), RIGHTS)}, "add authority to \\[tls\\]"),
        (
            {"neighbours": SECURE, "tls": Tls(Path("a.pem"), Path("a.key")), "access": Access((), RIGHTS)},
            "add authority to \\[tls\\]",
        ),
        ({"http": "127.0.0.1:99999"}, "a port from 0 to 65535"),
        ({"name": "a\nb"}, "the name of a broker has 1 to 200 characters that can be printed"),
    ],
)
def test_what_would_be_open_to_strangers_is_said_before_the_broker_starts(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(cc.ContentcastError, match=complaint):
        BrokerConfig(**settings).check()
    if settings.get("http", "").startswith("0"):
        BrokerConfig(**settings, insecure=True).check()


def test_a_broker_alone_with_tls_and_tokens_needs_no_authority() -> None:
    """Nobody is taken for another broker there: none could prove a name."""
    BrokerConfig(listen=SECURE, tls=Tls(Path("a.pem"), Path("a.key")), access=Access((), RIGHTS)).check()


def test_nobody_can_make_up_a_name_that_belongs_to_another_identity(tmp_path: Path) -> None:
    """Of a durable subscription and of a publisher: `b/c` of a, and `c` of a/b."""
    tokens, rights = Tokens(), Rights({"*": "TRUE"}, {"*": "TRUE"}, declare=True)

    @story
    async def told() -> None:
        async with Net() as net:
            a = await net.broker("a", data=tmp_path / "a", access=Access((tokens.public,), {"*": rights}))
            one, other = await net.client(a, token=tokens.of("a")), await net.client(a, token=tokens.of("a/b"))
            await one.declare(TRADES)
            mine = await one.events("trades", durable="b/c").ready()
            theirs = await other.events("trades", durable="c").ready()
            assert not (await one.publish("trades", TRADE, publisher="b/c", number=1)).duplicate
            assert not (await other.publish("trades", TRADE, publisher="c", number=1)).duplicate
            for stream in (mine, theirs):
                assert [await anext(stream), await anext(stream)] == [TRADE, TRADE]

    told()
    names = [owned(identity, name) for identity in ("", "a", "~a", "a/b", "a%2Fb") for name in ("c", "b/c", "2Fb/c", "/c")]
    assert len(set(names)) == len(names)
    assert owned("desk-7", "~x") == "desk-7/~x", "as it is in data folders of earlier versions"
    assert not owned("~desk-7", "x").startswith("~"), "or it would be kept as one of a passing publisher"


@story
async def test_a_session_ends_when_its_token_expires_and_goes_on_with_another_one() -> None:
    """The broker's clock is put forward. Who was given a single token is told why it ends; a certificate has no such end."""
    tokens = Tokens()
    async with Net() as net:
        a = await net.broker("a", access=Access((tokens.public,), RIGHTS))
        single = await net.client(a, token=tokens.of("desk-7", lasts_s=600))
        given: list[float] = [600, 1200, 1200]
        changes: list[tuple[str, str]] = []
        many = await net.enter_async_context(
            cc.connect(
                str(a.addresses[0]),
                token=lambda: tokens.of("chief", lasts_s=given.pop(0)),
                on_change=lambda *each: changes.append(each),
            )
        )
        await many.declare(TRADES)
        got: list[Any] = []
        await many.subscribe("trades", deliver=got.append)
        for session in a.serving.sessions.values():
            assert session.until is not None
            assert 500 < session.until - time.time() < 601
            session.until -= 601
        await until(lambda: not single.is_connected)
        with pytest.raises(LiveError, match="the token of desk-7 has expired; connect with a new one") as told:
            await single.publish("trades", TRADE)
        assert told.value.code == "token-expired"
        await until(lambda: many.reconnections == 1)
        assert ("refused", "the token of chief has expired; connect with a new one") in changes
        await until(lambda: len(a.serving.sessions) == 1 and a.router.sizes()["subscriptions"] == 1)
        await many.publish("trades", TRADE)
        await until(lambda: got == [TRADE])


@story
async def test_no_secrets_in_logs_or_state() -> None:
    """Tokens, whole and in part, keys of sessions, and what is wanted or published in the log."""
    tokens, out = Tokens(), io.StringIO()
    config = BrokerConfig(name="a", access=Access((tokens.public,), {"chief": RIGHTS["chief"]}))
    for form in ("text", "json"):
        async with Broker(config, log=Log(form, "a", out)) as a, Net() as net:
            token, wrong = tokens.of("chief"), tokens.of("chief", lasts_s=-5)
            chief = await net.client(a, token=token, name="desk-7")
            for bad in (wrong, "garbage-garbage", token + "x"):
                with pytest.raises(LiveError):
                    await cc.connect(str(a.addresses[0]), token=bad)
            await chief.declare(TRADES)
            await chief.subscribe("trades", "issue = 'Hush'", deliver=print)
            await chief.publish("trades", TRADE | {"issue": "Hush"})
            key = a.serving.sessions["desk-7"].key
            real, a.serving.access = a.serving.access, Broken()
            with pytest.raises(LiveError, match="its log says more"):
                await cc.connect(str(a.addresses[0]), token=token)
            a.serving.access = real
            told = json.dumps(state(a, with_router=True, with_counts=True), default=str) + str(list(Metrics(a).collect()))
        assert "desk-7" in told
        secrets = [key, "garbage-garbage", *(part for each in (token, wrong) for part in each.split(".")[1:])]
        assert not [each for each in secrets if each in told + out.getvalue()]
        assert "Hush" not in out.getvalue()
        assert "RuntimeError" in out.getvalue()


class Broken(Access):
    """Fails when somebody comes, with their token at hand."""

    def who(self, certificate_name: str, token: str) -> str:
        raise RuntimeError(f"cannot read {Hello('client', 'm', token=token)}")


@story
async def test_a_token_that_is_forged_or_old_or_missing() -> None:
    tokens, forger = Tokens(), Tokens()
    async with Net() as net:
        a = await net.broker("a", access=Access((tokens.public,), RIGHTS))
        url = str(a.addresses[0])
        for token, complaint in (
            (forger.of("chief"), "Signature verification failed"),
            (tokens.of("chief", lasts_s=-5), "expired"),
            (jwt.encode({"sub": "chief", "exp": time.time() + 60}, "", algorithm="none"), "not accepted"),
            ("garbage", "not accepted"),
            ("", "who show a certificate or a token"),
        ):
            with pytest.raises(LiveError, match=complaint) as wrong:
                await cc.connect(url, token=token)
            assert wrong.value.code == "access"
        assert not a.serving.sessions


def test_a_client_is_known_by_its_certificate(tmp_path: Path) -> None:
    papers = Papers(tmp_path)

    @story
    async def told() -> None:
        async with Net() as net:
            a = await net.broker("a", listen=SECURE, tls=papers.tls("a"), access=Access((), RIGHTS))
            certificate, key = papers.certificate("client", "feed")
            options = {"authority": str(papers.authority), "certificate": str(certificate), "key": str(key)}
            feed = await net.client(a, **options)
            await feed.declare(TRADES)
            assert a.serving.sessions[feed.name].identity == "feed"

    told()


def test_a_renewed_certificate_counts_after_a_reload_and_the_sockets_stay_open(tmp_path: Path) -> None:
    """The files are replaced by those of another authority; `contentcast broker reload` asks for the same as this client."""

    @story
    async def told() -> None:
        before, after = Papers(tmp_path, "before"), Papers(tmp_path, "after")
        async with Net() as net:
            a = await net.broker("a", listen=SECURE, tls=before.tls("a"))
            a.read_config = lambda: a.config
            client = await net.client(a, authority=str(before.authority))
            await client.declare(TRADES)
            renewed = after.tls("a")
            assert a.config.tls is not None
            assert renewed.certificate == a.config.tls.certificate, "in the same files"
            with pytest.raises(cc.ContentcastError, match="its certificate is not trusted"):
                await cc.connect(str(a.addresses[0]), authority=str(after.authority), reconnect=False)
            assert await client.ask("reload") == {"unchanged_until_restart": "nothing"}
            other = await net.client(a, authority=str(after.authority))
            assert set(await other.spaces()) == {"trades"}
            assert (await client.publish("trades", TRADE)).events == 1, "who was connected before stays so"

    told()
