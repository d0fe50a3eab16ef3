"""The page's explanations: training progress, faults, and the meaning of figures."""

import pytest

from tests.api.page.desk import DESK, PHONE, go, speak, until

pytestmark = pytest.mark.system
CPU = "Speaks on the CPU: there is no GPU on this machine."


def test_a_running_training_tells_how_far_it_is_and_how_long_it_takes(page, world):
    """Three of five epochs are done, then five steps of the fourth."""
    told = "document.getElementById('progress-info').textContent"
    share = "document.getElementById('progress-bar').value"
    until(page, f"{told} === 'Epoch 3 of 5, step 40 of 40; about 20 min left.'")
    assert page.evaluate(share) == pytest.approx(0.6)
    row = world.records[-2]
    for left, words in ((7260.0, "about 2 h 1 min left"), (20.0, "less than a minute left")):
        how = {"epochs": 5, "epoch_step": 5, "epoch_steps": 40, "seconds_left": left}
        step = int(125 + 1000 / left)
        world.records.append(row | {"epoch": 4, "step": step, "progress": how})
        world.tell("metrics")
        until(page, f"{told} === 'Epoch 4 of 5, step 5 of 40; {words}.'")
    assert page.evaluate(share) == pytest.approx(125 / 200)
    how = {"epochs": 5, "epoch_step": 40, "epoch_steps": 40, "seconds_left": 0.0}
    world.records.append(row | {"epoch": 5, "step": 200, "progress": how})
    world.tell("metrics")
    until(page, f"{told} === 'Epoch 5 of 5, step 40 of 40; less than a minute left.'")
    world.records.append({"kind": "phase", "epoch": 5, "step": 200, "phase": "concluding"})
    world.tell("metrics")
    words = "all epochs trained; choosing the best"
    until(page, f"{told} === 'Epoch 5 of 5, {words}; less than a minute left.'")
    world.training = False
    world.tell("epoch")
    page.wait_for_selector("#progress", state="hidden")


def test_a_run_of_an_earlier_version_has_no_progress(world, opened):
    for row in world.records:
        row.pop("progress", None)
    page = opened(view="compare", ready="#charts:not([hidden])")
    assert page.is_visible("#training") and page.is_hidden("#progress")


@pytest.mark.parametrize(
    ("state", "code", "banner"),
    [
        ("ready", "", False),
        ("starting", "starting", False),
        ("starting", "out_of_memory", True),
        ("degraded", "gpu_failed_check", True),
        ("restarting", "gpu_fault", True),
    ],
)
def test_an_ordinary_cpu_is_no_warning_and_a_fault_is_one(world, opened, state, code, banner):
    world.state, world.reason_code, world.message = state, code, CPU
    page = opened(view="compare", ready="#desk-works:not([hidden])")
    assert page.is_visible("#message") == banner
    page.click("#about summary")
    assert page.text_content("#message") == (CPU if banner else "")
    assert page.text_content("#why") == ("" if banner else CPU)
    assert page.text_content("#voice-why") == "the newest epoch"


MEANINGS = {
    "#about": ["Device", "Provider", "Voice", "Requests"],
    "#epoch-figures": ["Audio loss", "Similarity"],
    "#curve-figures": ["Training", "Validation", "Similarity", "Step"],
    "#spoken-figures": ["First sound after", "Spoken in", "Playback paused"],
}


@pytest.mark.parametrize("by", ["keyboard", "touch"])
def test_what_a_figure_means_is_told_without_a_pointer(opened, by):
    touch = by == "touch"
    size = PHONE if touch else {"width": 1280, "height": 900}
    page = opened(view="compare", ready=DESK, viewport=size, has_touch=touch)
    speak(page, "Good morning.")
    for place, terms in MEANINGS.items():
        go(page, "compare" if place in ("#epoch-figures", "#curve-figures") else "speak")
        terms_of = "#about-meanings" if place == "#about" else place
        assert page.is_hidden(f"{terms_of} dd >> nth=0")
        if touch:
            page.tap(f"{place} summary")
        else:
            page.focus(f"{place} summary")
            page.keyboard.press("Enter")
        page.wait_for_selector(f"{terms_of} dd >> nth=0")
        assert page.locator(f"{terms_of} dt").all_inner_texts() == terms
        assert all(len(told) > 30 for told in page.locator(f"{terms_of} dd").all_inner_texts())
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


def test_figures_are_told_with_what_is_much_and_what_steers_the_speech(page):
    page.click("#epoch-figures summary")
    told = page.text_content("#epoch-figures dl")
    assert "one person have 0.8 to 0.9" in told and "different people 0 to 0.3" in told
    go(page, "speak")
    page.click("#speak summary")
    terms = page.locator("#decoding-figures dt").all_inner_texts()
    assert terms == ["Speed", "Temperature", "Seed"]
    assert page.is_visible("#decoding-figures dd >> nth=2")
