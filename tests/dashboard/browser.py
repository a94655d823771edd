"""A headless Chromium, driven through its own protocol over a pipe.

The protocol (https://chromedevtools.github.io/devtools-protocol/) needs neither a driver of the same
version nor a free port: messages are JSON, each ended by a zero byte, on descriptors 3 and 4.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

# Machines that compile beside the test are slow, not broken.
PATIENCE_S = 50.0


class BrowserError(Exception):
    """The browser, or the page in it, did not do what was asked."""


class Browser:
    """One page. Collects what it writes to its console and the errors that nobody caught."""

    def __init__(self, program: str = "chromium"):
        self._profile = tempfile.mkdtemp(prefix="tessera-browser-")
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        command = [
            program, "--headless=new", "--remote-debugging-pipe", "--no-sandbox",
            "--disable-dev-shm-usage", "--disable-gpu", "--disable-extensions", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--mute-audio",
            "--hide-scrollbars", f"--user-data-dir={self._profile}", "--window-size=1200,900",
            "about:blank"]
        self._log = open(Path(self._profile, "log"), "w+", encoding="utf-8", errors="replace")
        # A shell puts the pipes where the protocol wants them.
        wiring = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", wiring, "browser", *command], stdin=subprocess.DEVNULL,
            stdout=self._log, stderr=self._log, pass_fds=(to_browser, from_browser),
            start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.errors: list[str] = []
        self.requests: list[str] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        self._session = self.call(
            "Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._out)
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._in)
        self._log.close()
        # Its helpers may still be writing their last words into the folder.
        shutil.rmtree(self._profile, ignore_errors=True)

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(self._in, 1 << 16) if ready else b""
            if not chunk:
                self._log.seek(0)
                why = "ended" if ready else "does not answer"
                raise BrowserError(f"the browser {why}:\n{self._log.read()[-2000:]}")
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            exception = details.get("exception", {})
            self.errors.append(exception.get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(a.get("value", a)) for a in parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.errors.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends one command and returns its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data):]
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self._receive(deadline)
            if answer.get("id") != self._number:
                self._note(answer)
            elif "error" in answer:
                raise BrowserError(f"{method}: {answer['error']['message']}")
            else:
                return answer["result"]

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def wait(self, expression: str, accept: Callable[[Any], bool] = bool) -> Any:
        """Asks until the value is accepted; says what it was at last where it never is."""
        deadline = time.monotonic() + PATIENCE_S
        pause = 0.01
        while True:
            value = self.evaluate(expression)
            if accept(value):
                return value
            if time.monotonic() > deadline:
                raise BrowserError(f"{expression} stays {value!r}; errors: {self.errors}")
            time.sleep(pause)
            pause = min(2 * pause, 0.2)

    def open(self, address: str) -> None:
        """Loads a page from scratch, also where only the part behind # differs."""
        self.call("Page.navigate", url="about:blank")
        self.wait("location.href === 'about:blank' && document.readyState === 'complete'")
        self.call("Page.navigate", url=address)
        self.wait("location.href !== 'about:blank' && document.readyState === 'complete'")

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Presses the left button at one point, moves to the other, and lets go."""
        self.move(*start)
        self._mouse("mousePressed", *start, buttons=1)
        for step in range(1, 6):
            x, y = (a + (b - a) * step / 5 for a, b in zip(start, end))
            self._mouse("mouseMoved", x, y, buttons=1)
        self._mouse("mouseReleased", *end)

    def swipe(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Puts a finger on one point, moves it to the other, and lifts it."""
        for step in range(6):
            x, y = (a + (b - a) * step / 5 for a, b in zip(start, end))
            self.call("Input.dispatchTouchEvent", type="touchMove" if step else "touchStart",
                      touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def move(self, x: float, y: float) -> None:
        self._mouse("mouseMoved", x, y)

    def _mouse(self, kind: str, x: float, y: float, buttons: int = 0) -> None:
        pressed = kind != "mouseMoved" or buttons
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, buttons=buttons,
                  button="left" if pressed else "none", clickCount=1 if kind != "mouseMoved" else 0)

    def press(self, key: str) -> None:
        """One key, such as "ArrowRight", "Tab" or "+"."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "End": 35, "Home": 36, "ArrowLeft": 37,
                 "ArrowRight": 39}
        text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
        code = codes.get(key, ord(key[0]))
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)
