"""Starts TensorBoard with the run, on TENSORBOARD_PORT."""

import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from machine import commands
from machine.errors import SotaqueError
from machine.process import ChildProcess, module_command
from train.settings import TrainSettings, load

log = logging.getLogger("train")

MAX_PORTS_TRIED = 50
START_SECONDS = 90.0
# By default it shows ten samples, drawn at random. "0 = all" shows none in the audio plugin of
# 2.21, so this is a number that no run reaches. It costs no memory for samples that do not exist.
_EVERY_SAMPLE = ("--samples_per_plugin", "audio=10000,images=10000")


class TensorBoard:
    """The server on the first free port from `port` on; `with` ends it."""

    def __init__(self, runs_dir: Path, port: int, *, host: str = "127.0.0.1") -> None:
        self.port = free_port(port, host)
        if self.port != port:
            log.info("Port %d is in use. TensorBoard uses %d.", port, self.port)
        self.address = f"http://localhost:{self.port}"
        runs_dir.mkdir(parents=True, exist_ok=True)
        options = [
            "--logdir",
            str(runs_dir),
            "--host",
            host,
            "--port",
            str(self.port),
            "--reload_interval",
            "5",
            *_EVERY_SAMPLE,
        ]
        self._child = ChildProcess(module_command("tensorboard.main", *options))
        log.info("TensorBoard: %s (it takes some seconds to start)", self.address)
        threading.Thread(target=self._watch, name="tensorboard", daemon=True).start()

    def close(self) -> None:
        """Ends the server."""
        self._child.end()

    def _watch(self) -> None:
        if self._child.wait(START_SECONDS) not in (None, -signal.SIGKILL):
            log.warning("TensorBoard did not start. `%s` shows why.", commands.make("tensorboard"))


def of_run(settings: TrainSettings, *, in_container: bool) -> TensorBoard | None:
    """The server for the settings; None with TENSORBOARD=off."""
    if not settings.tensorboard:
        return None
    # In a container, a published port leads to the container's address, not to its loopback.
    host = "0.0.0.0" if in_container else "127.0.0.1"
    return TensorBoard(settings.runs_dir, settings.tensorboard_port, host=host)


def free_port(first: int, host: str) -> int:
    """The first free port from `first` on; `first` itself if none is free."""
    for port in range(first, min(first + MAX_PORTS_TRIED, 65536)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((host, port))
                return port
    return first


def main(argv: Sequence[str] | None = None) -> int:
    """`make tensorboard`: shows the curves of finished runs in the folder that the settings name.
    Takes settings as flags, such as --runs-dir and --tensorboard-port."""
    try:
        settings, _ = load(sys.argv[1:] if argv is None else argv)
    except SotaqueError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    options = ["--logdir", str(settings.runs_dir), "--port", str(settings.tensorboard_port)]
    options += _EVERY_SAMPLE
    os.execv(sys.executable, [sys.executable, "-m", "tensorboard.main", *options])
    return 0  # not reached: exec replaced the process by TensorBoard


if __name__ == "__main__":
    sys.exit(main())
