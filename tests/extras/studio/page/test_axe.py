"""The page with a reading, a training and runs is accessible: the findings of axe-core, which npm
downloads, and the order of Tab."""

import itertools
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from extras.studio.training_jobs import TrainingQueue
from tests.api.conftest import Running, running, settings_in
from tests.api.judged_run import PATIENT
from tests.api.page.conftest import Open
from tests.api.page.desk import LOOKS, go, speak, until
from tests.api.page.filled import filled
from tests.api.page.test_access import FOCUSED
from tests.api.page.test_runs import write_run
from tests.extras.studio.datasets.calls import with_tape
from tests.extras.studio.page.test_reading import reading

pytestmark = pytest.mark.system
SERIOUS = ("serious", "critical")
VIEWS = ("speak", "voices", "train/reading", "train/recordings", "train/trains", "compare", "books")
# The controls of the view that is shown.
CONTROLS = """[...document.querySelectorAll(
  "main :is(button, input, select, textarea, summary, [tabindex='0'])"
)].filter((one) => one.checkVisibility() && !one.disabled)"""


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The source of axe-core."""
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
    """Has content in every section: a cut dataset, sentences to read, a training, two runs."""
    folder: Path = tmp_path_factory.mktemp("studio")
    write_run(folder / "output", "ana", 2, best=2)
    write_run(folder / "output", "ben", 1, best=1)
    with running(settings_in(folder, voice="demo"), limits=PATIENT) as found:
        reading(found)
        with_tape(found, "Anna", text=b"Words.").cut()
        TrainingQueue(found.state.settings.queue_dir).ask("eva", "anna", {})
        yield found


def faults(page: Any, axe: str) -> list[str]:
    """Every serious fault of the whole page, with the first element at fault."""
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    assert len(found["passes"]) > 20  # It did run.
    return [
        f"{violation['impact']}: {violation['help']}: {violation['nodes'][0]['html']}"
        for violation in found["violations"]
        if violation["impact"] in SERIOUS
    ]


def loaded(service: Running, open_page: Open, **options: Any) -> Any:
    """The page, completely loaded."""
    page = open_page(service.address, view="train/recordings", ready="#clip-list li", **options)
    for shown in ("#reading-works:not([hidden])", "#trainings button", "#voice-list li"):
        page.wait_for_selector(shown, state="attached")
    until(page, "(document.getElementById('run-list').textContent.match(/on disk/g) ?? [])[1]")
    return page


@pytest.mark.parametrize("width", [1280, 390])
def test_tab_alone_leads_through_every_view_in_the_order_of_reading(service, open_page, width):
    page = loaded(service, open_page, viewport={"width": width, "height": 844})
    for view in VIEWS:
        go(page, view)
        page.wait_for_timeout(300)
        expected = page.evaluate(f"({CONTROLS}).map((one) => one.id || one.ariaLabel || one.name)")
        assert expected
        page.focus(".skip")
        seen: list[int] = []
        edges: list[tuple[float, float]] = []
        for _ in range(300):
            page.keyboard.press("Tab")
            name, outlined = page.evaluate(FOCUSED)
            assert outlined, f"the focus cannot be seen on {name}"
            if name in ("body", "Skip to the content"):  # Around, and back at the top.
                break
            at, top, bottom = page.evaluate(f"""(() => {{
              const {{ top, bottom }} = document.activeElement.getBoundingClientRect();
              return [({CONTROLS}).indexOf(document.activeElement), top + scrollY, bottom + scrollY];
            }})()""")
            if at >= 0:
                seen.append(at)
                edges.append((top, bottom))
        assert [expected[at] for at in seen] == expected, view
        # Two columns are read one after the other.
        if width == 390:
            above = [after[1] <= before[0] for before, after in itertools.pairwise(edges)]
            assert not any(above), (view, expected[seen[above.index(True) + 1]])


@LOOKS
def test_axe_finds_nothing_serious(service, open_page: Open, axe, width, scheme):
    page = loaded(
        service,
        open_page,
        color_scheme=scheme,
        has_touch=width < 400,
        viewport={"width": width, "height": 844},
    )
    speak(page, "Good morning.")
    for view in VIEWS:
        go(page, view)
        if view == "train/trains":
            page.select_option("#train-dataset", "anna")
            page.click("#check")
            page.wait_for_selector("#findings li")
        for summary in page.locator("summary:visible:not(.menu > summary, #about > summary)").all():
            summary.click()
        assert faults(page, axe) == [], view
    page.click("#about > summary")  # It covers what is below it on a telephone.
    assert faults(page, axe) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 768, 1400])
def test_axe_finds_nothing_serious_at_other_widths(world, opened, axe, width, scheme):
    """On the fake server, with content in every section."""
    filled(world, "tape")
    size = {"width": width, "height": 900}
    page = opened(color_scheme=scheme, has_touch=width < 400, viewport=size)
    speak(page, "Good morning.")
    page.wait_for_selector("#take-list li")
    found = {}
    for view in VIEWS:
        go(page, view)
        page.wait_for_timeout(300)
        found[view] = faults(page, axe)
    assert not any(found.values()), found


def test_axe_finds_what_is_wrong(service, open_page: Open, axe):
    page = open_page(service.address, view="train/trains", ready="#trainings button")
    page.evaluate("""() => {
      document.getElementById("train").textContent = "";
      document.getElementById("train-note").style.color = "#bbb";
    }""")
    told = " ".join(faults(page, axe))
    assert "discernible text" in told and "contrast" in told
