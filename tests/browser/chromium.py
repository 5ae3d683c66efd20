"""A real Chromium without a window, driven over its DevTools protocol: pages are opened, looked into and operated.

Rule: it knows no other host than loopback, has a new profile each time, and ends with its test.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import aiohttp

BROWSER: Final = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
LIMIT_S: Final = 60.0
OPTIONS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-port=0",
)


class Chromium:
    """`async with Chromium(folder) as page`: one page, in a browser of its own."""

    def __init__(self, folder: Path) -> None:
        self._profile = folder / "profile"
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.complaints: list[str] = []
        """What stands in the console: errors of scripts, what the page's policy has stopped."""
        self.asked: list[str] = []
        """Every address that the page has asked for."""

    async def __aenter__(self) -> Chromium:
        assert BROWSER is not None
        command = [BROWSER, *OPTIONS, f"--user-data-dir={self._profile}", "about:blank"]
        self._running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self._session = aiohttp.ClientSession()
            async with asyncio.timeout(LIMIT_S):
                port = await self._port()
                async with self._session.get(f"http://127.0.0.1:{port}/json/list") as told:
                    (page,) = [each for each in await told.json() if each["type"] == "page"]
                self._socket = await self._session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0)
            self._reading = asyncio.create_task(self._read())
            for domain in ("Page", "Runtime", "Log", "Network"):
                await self.command(f"{domain}.enable")
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._socket.close()
        await self._end()

    async def _end(self) -> None:
        await self._session.close()
        self._running.kill()
        self._running.wait()
        shutil.rmtree(self._profile, ignore_errors=True)

    async def _port(self) -> int:
        """Chromium writes it when it listens."""
        told = self._profile / "DevToolsActivePort"
        while not (told.exists() and "\n" in told.read_text()):
            assert self._running.poll() is None, "Chromium has ended"
            await asyncio.sleep(0.05)
        return int(told.read_text().splitlines()[0])

    async def _read(self) -> None:
        async for message in self._socket:
            told = message.json()
            if "id" in told:
                self._answers.pop(told["id"]).set_result(told)
            elif told["method"] == "Runtime.exceptionThrown":
                self.complaints.append(str(told["params"]["exceptionDetails"]))
            elif told["method"] == "Log.entryAdded" and told["params"]["entry"]["level"] == "error":
                self.complaints.append(told["params"]["entry"]["text"])
            elif told["method"] == "Network.requestWillBeSent":
                self.asked.append(told["params"]["request"]["url"])

    async def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        async with asyncio.timeout(LIMIT_S):
            told = await self._answers[number]
        assert "error" not in told, f"{method}: {told}"
        result: dict[str, Any] = told["result"]
        return result

    async def open(self, url: str, *, width: int = 1280, height: int = 1000, dark: bool = False) -> None:
        await self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.command("Emulation.setEmulatedMedia", features=[scheme])
        await self.command("Page.navigate", url=url)

    async def says(self, script: str) -> Any:
        """The value of an expression in the page."""
        told = await self.command("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    async def key(self, key: str) -> None:
        """A key that is pressed and let go: Tab, Enter."""
        text = {"Enter": "\r"}.get(key, "")
        code = {"Tab": 9, "Enter": 13}[key]
        for kind in ("keyDown", "keyUp"):
            await self.command("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, text=text)

    async def picture(self, path: Path) -> None:
        told = await self.command("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(told["data"]))
