"""A Chromium whose microphone plays a wav file in a loop, starting when it is opened."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def browser_hearing(chromium: Any, recording: Path) -> Iterator[Any]:
    browser = chromium.browser_type.launch(
        executable_path=shutil.which("chromium"),
        args=[
            "--no-sandbox",
            "--use-fake-device-for-media-stream",
            "--use-fake-ui-for-media-stream",
            f"--use-file-for-fake-audio-capture={recording}",
            "--host-resolver-rules=MAP speech.test 127.0.0.1",
        ],
    )
    yield browser
    browser.close()
