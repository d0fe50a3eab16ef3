"""A worker child without a model, which tests start in place of `xtts.workers.file_worker`.

The text of a request chooses its effect; any other text is "spoken" as a short WAV.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import soundfile

from machine.errors import SotaqueError
from tests.xtts.workers.faulty_worker import injected_fault
from xtts.workers import file_worker
from xtts.workers.requests import ReportProgress, SpeakRequest, SpokenFile


class QuickSpeaker:
    """Speaks 0.1 s of silence, or fails as requested."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.compute = arguments.compute
        if arguments.base.name == "refused":
            raise SotaqueError("model.pth is missing.")
        if arguments.base.name == "slow":
            time.sleep(60)

    def ask(self, request: SpeakRequest, progress: ReportProgress) -> SpokenFile:
        """Does what the text requests."""
        injected_fault()
        print("a library prints to stdout")
        os.write(1, b"and C code to fd 1\n")
        word, _, rest = request.request.text.partition(" ")
        if word == "refuse":
            raise SotaqueError("The reference is silent.")
        if word == "compute":
            raise SotaqueError(" ".join(self.compute.command_line()))
        if word == "exit":
            print("the last words", file=sys.stderr, flush=True)
            os._exit(int(rest))
        if word == "grandchild":  # the file it writes holds its process id
            child = subprocess.Popen(["sleep", "60"])
            Path(rest).write_text(str(child.pid))
            time.sleep(60)
        if word == "steps":
            for step in range(int(rest)):
                progress((step + 1) / int(rest))
                time.sleep(0.01)
        if word == "when":
            while not Path(rest).exists():
                time.sleep(0.01)
        if word == "sigterm":
            os.kill(os.getpid(), signal.SIGTERM)
        soundfile.write(request.out, [0.0] * 2400, 24_000)
        return SpokenFile(0.01, 0.1, self.compute.device, 0.5)


if __name__ == "__main__":
    sys.exit(file_worker.main(QuickSpeaker))
