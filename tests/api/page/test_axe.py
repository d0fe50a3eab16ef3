"""What axe-core says of the page with a reading, a training and runs. System: npm downloads it."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import Running, running, settings_in
from tests.api.datasets.calls import with_tape
from tests.api.judged_run import PATIENT
from tests.api.page.conftest import Open
from tests.api.page.desk import LOOKS, until
from tests.api.page.test_reading import reading
from tests.api.page.test_runs import write_run
from xtts.voices.training_jobs import TrainingQueue

pytestmark = pytest.mark.system
SERIOUS = ("serious", "critical")


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its source."""
    folder = tmp_path_factory.mktemp("axe")
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("There is no npm on this machine.")
    command = [npm, "install", "--no-audit", "--no-fund", "axe-core@4"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=600)
    yield (folder / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """With something in every part: a cut dataset, sentences to read, a training, two runs."""
    folder: Path = tmp_path_factory.mktemp("studio")
    write_run(folder / "output", "ana", 2, best=2)
    write_run(folder / "output", "ben", 1, best=1)
    with running(settings_in(folder, voice="demo"), limits=PATIENT) as found:
        reading(found)
        with_tape(found, "Anna", text=b"Words.").cut()
        TrainingQueue(found.parts.settings.queue_dir).ask("eva", "anna", {})
        yield found


def faults(page: Any, axe: str) -> list[str]:
    """Every serious fault of the whole page, with the first element that has it."""
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    assert len(found["passes"]) > 20  # It did look.
    return [
        f"{one['impact']}: {one['help']}: {one['nodes'][0]['html']}"
        for one in found["violations"]
        if one["impact"] in SERIOUS
    ]


@LOOKS
def test_axe_finds_nothing_serious(service, open_page: Open, axe, width, scheme):
    page = open_page(service.address, ready="#clip-list li", color_scheme=scheme,
                     has_touch=width < 400, viewport={"width": width, "height": 844})  # fmt: skip
    page.wait_for_selector("#reading-works:not([hidden])")
    page.wait_for_selector("#trainings button")
    until(page, "document.getElementById('run-list').textContent.includes('on disk')")
    page.select_option("#train-dataset", "anna")
    page.click("#check")
    page.wait_for_selector("#findings li")
    for summary in page.locator("summary").all():
        if summary.is_visible():
            summary.click()
    assert faults(page, axe) == []


def test_axe_finds_what_is_wrong(service, open_page: Open, axe):
    page = open_page(service.address, ready="#trainings button")
    page.evaluate("""() => {
      document.getElementById("train").textContent = "";
      document.getElementById("train-note").style.color = "#bbb";
    }""")
    told = " ".join(faults(page, axe))
    assert "discernible text" in told and "contrast" in told
