"""Chromium without a window, driven through a pipe by the DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from typing import Any

OPTIONS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-extensions --hide-scrollbars --remote-debugging-pipe"
)
PATIENCE_S = 60.0


class Browser:
    """One tab. It is ended with the block."""

    def __init__(self) -> None:
        program = shutil.which("chromium")
        assert program, "no Chromium; install it: cargo xtask setup browser"
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        # Chromium reads descriptor 3 and writes descriptor 4.
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        words = [program, *OPTIONS.split(), f"--user-data-dir={self._folder.name}", "about:blank"]
        descriptors = f"exec 3<&{theirs_in} 4>&{theirs_out}"
        self._program = subprocess.Popen(
            ["sh", "-c", f'{descriptors}; exec "$@"', "sh", *words],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._read = b""
        self._calls = 0
        self._session = ""
        #: What the page logged, refusals of its policy among it.
        self.complaints: list[str] = []
        target = next(t for t in self._call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self._call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._to)
        os.close(self._from)
        self._program.terminate()
        self._program.wait()
        self._folder.cleanup()

    def screen(self, width: int, height: int = 900, scheme: str = "light") -> None:
        phone = width < 600
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone
        )
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self._call("Emulation.setEmulatedMedia", features=[feature])

    def open(self, address: str) -> None:
        self._call("Page.navigate", url=address)
        self.until("document.readyState === 'complete'")

    def value(self, script: str) -> Any:
        done = self._call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in done, f"{script}: {done}"
        return done["result"].get("value")

    def until(self, script: str) -> Any:
        """The value of the script as soon as it is true."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := self.value(script)):
            assert time.monotonic() < deadline, f"not: {script}; {self.complaints}"
            time.sleep(0.05)
        return found

    def press(self, key: str) -> None:
        codes = {"Tab": 9, "Enter": 13, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39}
        text = "\r" if key == "Enter" else ""
        for kind in ("keyDown", "keyUp"):
            self._call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key], text=text
            )

    def picture(self) -> bytes:
        """The whole page as WebP."""
        size = self._call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self._call("Page.captureScreenshot", format="webp", quality=82, captureBeyondViewport=True, clip=clip)
        return base64.b64decode(shot["data"])

    def _call(self, method: str, **parameters: Any) -> Any:
        self._calls += 1
        message: dict[str, Any] = {"id": self._calls, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            reply = self._next(method)
            if reply.get("id") == self._calls:
                assert "error" not in reply, f"{method}: {reply['error']}"
                return reply["result"]
            if reply.get("method") == "Log.entryAdded":
                self.complaints.append(reply["params"]["entry"]["text"])
            elif reply.get("method") == "Runtime.exceptionThrown":
                self.complaints.append(str(reply["params"]["exceptionDetails"]))

    def _next(self, waiting_for: str) -> Any:
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._from], [], [], PATIENCE_S)
            assert ready, f"Chromium does not answer {waiting_for}"
            more = os.read(self._from, 1 << 20)
            assert more, f"Chromium has ended; it does not answer {waiting_for}"
            self._read += more
        line, self._read = self._read.split(b"\0", 1)
        return json.loads(line)
