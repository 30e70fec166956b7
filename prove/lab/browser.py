"""A headless Chromium, controlled by the DevTools protocol over a local socket."""

from __future__ import annotations

import base64
import json
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any

from websockets.sync.client import connect

from prove.lab.browser_setup import browser
from servers.environment import clean_environment
from servers.process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from websockets.sync.client import ClientConnection

    from servers.process import ServerFolder

WIDTH, HEIGHT = 1500, 1280  # the whole graph fits
START_SECONDS = 60.0
ANSWER_SECONDS = 60.0

_POLL_SECONDS = 0.2
_ARGUMENTS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--no-default-browser-check", "--no-proxy-server"),
    # Nothing but this machine: the page under test must not need the network, nor the browser by itself.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    "--remote-debugging-port=0",
)
# The innermost visible element with this text or label, brought into view; its middle unless it is covered.
_FIND = """
((text, selector) => {
  const says = e => (e.innerText || '').trim() === text || e.getAttribute('aria-label') === text
    || e.getAttribute('placeholder') === text;
  const shown = e => e.getClientRects().length > 0;
  const found = [...document.querySelectorAll(selector)].filter(e => says(e) && shown(e));
  const innermost = found.filter(e => !found.some(other => other !== e && e.contains(other)));
  for (const e of innermost) {
    e.scrollIntoView({block: 'center', inline: 'center'});
    const box = e.getBoundingClientRect();
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    const top = document.elementFromPoint(x, y);
    const enabled = !e.closest('[disabled]');
    if (top && enabled && (e.contains(top) || top.contains(e))) return {x, y};
  }
  return null;
})(%s, %s)
"""
_NAVIGATED = "Inspected target navigated"
_STILL = "document.getAnimations().every(a => !(a instanceof CSSTransition) || a.playState !== 'running')"


@dataclass(slots=True)
class Page:
    """The only tab. Waits poll, and their failures show the page's text."""

    socket: ClientConnection
    last_id: int = field(default=0)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Run one command and return its answer; events in between are dropped."""
        self.last_id += 1
        self.socket.send(json.dumps({"id": self.last_id, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self.socket.recv(timeout=ANSWER_SECONDS))
            if answer.get("id") == self.last_id:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])

    def open(self, url: str) -> None:
        """Go to an address without waiting for its contents."""
        answer = self.call("Page.navigate", url=url)
        assert "errorText" not in answer, f"{url}: {answer['errorText']}"

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, on this page or its successor."""
        try:
            answer = self.call(
                "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
            )
        except AssertionError as error:
            if _NAVIGATED not in str(error):
                raise
            return self.evaluate(expression)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    @property
    def text(self) -> str:
        """The visible text."""
        return str(self.evaluate("document.body ? document.body.innerText : ''"))

    def wait_for(self, *texts: str, times: int = 1, seconds: float = 60.0) -> None:
        """Wait until the page shows all these texts, each this many times."""
        deadline = time.monotonic() + seconds
        while missing := [text for text in texts if self.text.count(text) < times]:
            assert time.monotonic() < deadline, f"{missing} not shown within {seconds:.0f} s:\n{self.text}"
            time.sleep(_POLL_SECONDS)

    def wait_until(self, condition: str, *, seconds: float = 60.0) -> None:
        """Wait until a JavaScript expression is true."""
        deadline = time.monotonic() + seconds
        while not self.evaluate(condition):
            assert time.monotonic() < deadline, f"not {condition} within {seconds:.0f} s:\n{self.text}"
            time.sleep(_POLL_SECONDS)

    def place(self, text: str, *, within: str = "*", seconds: float = 60.0) -> dict[str, float]:
        """Return the position of the visible element with exactly this text; ``within`` is a CSS selector."""
        place = self._find(text, within, seconds)
        assert place is not None, f"nothing to click says {text!r}:\n{self.text}"
        return place

    def shows(self, text: str, *, within: str = "*", seconds: float = 60.0) -> bool:
        """True if the page shows it before the timeout."""
        return self._find(text, within, seconds) is not None

    def _find(self, text: str, within: str, seconds: float) -> dict[str, float] | None:
        deadline = time.monotonic() + seconds
        find = _FIND % (json.dumps(text), json.dumps(within))
        before, place = None, self.evaluate(find)
        while place is None or place != before:
            if time.monotonic() > deadline:
                return None
            time.sleep(_POLL_SECONDS)
            before, place = place, self.evaluate(find)
        return dict(place)

    def click(self, text: str, *, within: str = "*", seconds: float = 60.0) -> None:
        """Click the element with exactly this text, once it can be clicked."""
        place = self.place(text, within=within, seconds=seconds)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            pressed = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", type=kind, **place, **pressed)

    def type(self, text: str) -> None:
        """Type into the focused element."""
        self.call("Input.insertText", text=text)

    def screenshot(self, path: Path, *, height: int = HEIGHT) -> None:
        """Return the screen's upper ``height`` pixels as PNG, once no animation runs."""
        self.wait_until(_STILL)
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 1}
        taken = self.call("Page.captureScreenshot", format="png", clip=clip)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(taken["data"]))


@contextmanager
def open_browser(folder: ServerFolder) -> Iterator[Page]:
    """Start a browser with its own profile, yield its tab, stop it."""
    port_file = folder.home / "DevToolsActivePort"
    port_file.unlink(missing_ok=True)  # of a browser that had the folder before
    command = [browser(), *_ARGUMENTS, f"--window-size={WIDTH},{HEIGHT}", f"--user-data-dir={folder.home}"]
    process = ServerProcess(folder, [*command, "about:blank"], clean_environment())
    try:
        process.wait_until(lambda: port_file.exists() and "\n" in port_file.read_text(), START_SECONDS)
        tab = _tab(int(port_file.read_text().splitlines()[0]))
        with connect(tab, max_size=None, proxy=None) as socket:
            page = Page(socket)
            size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
            page.call("Emulation.setDeviceMetricsOverride", **size)
            yield page
    finally:
        process.stop()


def _tab(port: int) -> str:
    connection = HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    connection.request("GET", "/json/list")
    tabs = json.load(connection.getresponse())
    connection.close()
    return next(str(tab["webSocketDebuggerUrl"]) for tab in tabs if tab["type"] == "page")
