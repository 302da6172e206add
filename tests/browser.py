"""A headless Chromium that tests and benchmarks lead over its debugging protocol."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import websocket

CHROMIUM = shutil.which("chromium")
START_S = 60.0


class Tab:
    """One tab; its address is what is seen.

    Parameters
    ----------
    url:
        Of the tab's debugger.
    """

    def __init__(self, url: str) -> None:
        self._socket = websocket.create_connection(url, timeout=START_S, suppress_origin=True)
        self._numbers = itertools.count(1)
        self.errors: list[str] = []
        """What the page's console and its rules of security have said."""
        for what in ("Page", "Runtime", "Log"):
            self.call(f"{what}.enable")

    def call(self, method: str, **arguments: Any) -> Any:
        """Call the debugger, and wait for its answer."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": arguments}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown"):
                self.errors.append(json.dumps(message["params"])[:500])
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]

    def open(self, url: str) -> None:
        """Go to an address, and wait until there is a page."""
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, script: str) -> Any:
        """Evaluate a script's expression in the page."""
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def words(self) -> str:
        """Return the words of what the page shows."""
        return str(self.run("document.querySelector('main')?.innerText || ''"))

    def until(self, script: str, seconds: float = START_S) -> Any:
        """Wait until an expression is true, and return it."""
        end = time.monotonic() + seconds
        while not (found := self.run(script)):
            assert time.monotonic() < end, f"{script} is not true after {seconds} s: {self.words()[:2000]}"
            time.sleep(0.1)
        return found

    def look(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set the window's size, and light or dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path: Path) -> None:
        """Write what is seen as a PNG file."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self) -> None:
        """Let go of the tab."""
        self._socket.close()


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Any]:
    """Yield a function that returns a new tab of a browser, which ends with the block.

    Parameters
    ----------
    folder:
        For the browser's own files.
    """
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-port=0")
    process = subprocess.Popen(
        [str(CHROMIUM), *options, f"--user-data-dir={folder}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    tabs: list[Tab] = []
    try:
        said, end = folder / "DevToolsActivePort", time.monotonic() + START_S
        while not said.exists() or not said.read_text().strip():
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)
        port = said.read_text().split()[0]

        def tab() -> Tab:
            request = urllib.request.Request(f"http://127.0.0.1:{port}/json/new?about:blank", method="PUT")
            with urllib.request.urlopen(request, timeout=START_S) as answer:
                tabs.append(Tab(json.load(answer)["webSocketDebuggerUrl"]))
            return tabs[-1]

        yield tab
    finally:
        for one in tabs:
            one.close()
        process.terminate()
        process.wait(START_S)
