"""Headless Chromium, driven over its DevTools protocol through a pair of pipes."""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
_READ, _WRITE = 3, 4  # where Chromium expects its ends of the pipes


class Browser:
    """One window with one page; ends with `with`."""

    def __init__(self, width: int, height: int, proxy: str | None = None) -> None:
        assert CHROMIUM
        self._profile = TemporaryDirectory(prefix="traceql-chromium-", ignore_cleanup_errors=True)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()

        def place_pipes() -> None:
            first, second = (
                fcntl.fcntl(end, fcntl.F_DUPFD, _WRITE + 1) for end in (theirs_in, theirs_out)
            )
            os.dup2(first, _READ)
            os.dup2(second, _WRITE)

        self._process = subprocess.Popen(
            [
                CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                "--remote-debugging-pipe", f"--user-data-dir={self._profile.name}",
                f"--window-size={width},{height}",
                *([f"--proxy-server={proxy}"] if proxy else []), "about:blank",
            ],
            preexec_fn=place_pipes, close_fds=False, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._received = b""
        self._calls = 0
        self.events: list[dict[str, Any]] = []
        self._session: str | None = None
        (page,) = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.call("Runtime.enable")

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command and its result; what happens meanwhile is added to `events`."""
        self._calls += 1
        command = {"id": self._calls, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._out, json.dumps(command).encode() + b"\0")
        while (message := self._message()).get("id") != self._calls:
            self.events.append(message)
        assert "error" not in message, message
        result: dict[str, Any] = message["result"]
        return result

    def evaluate(self, expression: str) -> Any:
        result = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def text(self) -> str:
        """What the page shows, but for what it draws on canvases."""
        return str(self.evaluate("document.body?.innerText"))

    def wait_for_text(self, text: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while text not in self.text():
            assert time.monotonic() < deadline, f"the page never shows {text!r}"
            time.sleep(0.2)

    def settle(self) -> None:
        """Waits until two pictures in a row are the same: canvases say nothing of their own."""
        last, picture = b"", self._picture()
        while picture != last:
            time.sleep(1)
            last, picture = picture, self._picture()

    def screenshot(self, target: Path) -> None:
        target.write_bytes(self._picture())

    def _picture(self) -> bytes:
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._received:
            received = os.read(self._in, 1 << 16)
            assert received, "the browser has gone"
            self._received += received
        first, _, self._received = self._received.partition(b"\0")
        message: dict[str, Any] = json.loads(first)
        return message

    def __enter__(self) -> "Browser":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        self._profile.cleanup()
