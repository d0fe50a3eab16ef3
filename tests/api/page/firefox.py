"""Debian's Firefox, driven by WebDriver BiDi: it listens itself, so no other program is needed."""

import itertools
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

PATIENCE_SECONDS = 300.0
_LISTENS = re.compile(r"WebDriver BiDi listening on (ws://\S+)")
# No visit of Mozilla's servers.
_PREFERENCES = {
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "app.update.enabled": False,
    "app.normandy.enabled": False,
    "messaging-system.rsexperimentloader.enabled": False,
}


class Firefox:
    """A tab. complaints: the errors that its console has shown."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._numbers = socket, itertools.count(1)
        self.complaints: list[str] = []
        self._ask("session.new", capabilities={})
        self._ask("session.subscribe", events=["log.entryAdded"])
        (tab,) = self._ask("browsingContext.getTree")["contexts"]
        self._tab = tab["context"]

    def goto(self, address: str, width: int, height: int) -> None:
        size = {"width": width, "height": height}
        self._ask("browsingContext.setViewport", context=self._tab, viewport=size)
        self._ask("browsingContext.navigate", context=self._tab, url=address, wait="complete")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression: a string, a number or a Boolean."""
        target = {"context": self._tab}
        told = self._ask("script.evaluate", expression=expression, target=target, awaitPromise=True)
        assert told["type"] == "success", told
        return told["result"].get("value", told["result"])

    def until(self, expression: str) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not self.evaluate(f"Boolean({expression})"):
            assert time.monotonic() < end, f"never came true: {expression}"
            time.sleep(0.1)

    def click(self, chosen: str) -> None:
        """Moves the mouse to an element and presses."""
        self.until(f"document.querySelector({chosen!r})?.checkVisibility()")
        expression = f"(() => {{ const one = document.querySelector({chosen!r});"
        expression += " one.scrollIntoView({ block: 'center' }); return one; })()"
        target = {"context": self._tab}
        told = self._ask("script.evaluate", expression=expression, target=target, awaitPromise=False)
        origin = {"type": "element", "element": {"sharedId": told["result"]["sharedId"]}}
        moves = [
            {"type": "pointerMove", "x": 0, "y": 0, "origin": origin},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]
        self._act({"type": "pointer", "id": "mouse", "actions": moves})

    def type(self, text: str) -> None:
        """Presses the keys of a text."""
        keys = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self._act({"type": "key", "id": "keyboard", "actions": keys})

    def _act(self, *actions: dict[str, Any]) -> None:
        self._ask("input.performActions", context=self._tab, actions=list(actions))

    def _ask(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            told = json.loads(self._socket.recv(timeout=PATIENCE_SECONDS))
            if told.get("method") == "log.entryAdded" and told["params"]["level"] == "error":
                self.complaints.append(told["params"]["text"])
            if told.get("id") == number:
                assert told["type"] == "success", told
                return told["result"]


@contextmanager
def sound_server(folder: Path) -> Iterator[dict[str, str]]:
    """PulseAudio with a sink that plays into nothing: without any, an AudioContext of Firefox stays
    suspended. Yields the environment that leads to it; {} if it is not installed."""
    program = shutil.which("pulseaudio")
    if program is None:
        yield {}
        return
    socket = folder / "sound"
    modules = ["module-null-sink", f"module-native-protocol-unix auth-anonymous=1 socket={socket}"]
    words = [program, "-n", "--daemonize=no", "--use-pid-file=no", "--exit-idle-time=-1"]
    words += [word for module in modules for word in ("-L", module)]
    home = {"HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)}
    process = subprocess.Popen(words, env={**os.environ, **home}, stderr=subprocess.DEVNULL)
    try:
        while not socket.exists():
            assert process.poll() is None, "pulseaudio has ended"
            time.sleep(0.05)
        yield {"PULSE_SERVER": f"unix:{socket}"}
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def firefox(folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[Firefox]:
    """A Firefox with an empty profile in this folder."""
    program = shutil.which("firefox-esr")
    assert program, "firefox-esr is not installed"
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in _PREFERENCES.items()]
    (folder / "user.js").write_text("\n".join(lines))
    words = [program, "--headless", "--no-remote", "--profile", str(folder), "--remote-debugging-port=0"]
    env = {**os.environ, **(environment or {})}
    process = subprocess.Popen([*words, "about:blank"], env=env, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    try:
        address = next(found[1] for line in process.stderr if (found := _LISTENS.search(line)))
        with connect(f"{address}/session", max_size=None) as socket:
            yield Firefox(socket)
    finally:
        process.terminate()
        process.wait(60)
