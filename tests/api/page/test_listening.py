"""The desk: both recordings play, A/B keeps the position, and a message explains a missing one."""

import pytest

from tests.api.page.desk import POSITION, WORKS, play, position, says, seek, until
from tests.api.page.world import TEXT, epoch

pytestmark = pytest.mark.system


def test_the_newest_epoch_is_on_the_desk_with_what_it_says_to_be_heard_and_saved(page):
    assert page.text_content("#desk-title") == "Epoch 3"
    assert page.text_content("#desk-text") == TEXT
    assert page.text_content("#desk-info") == "Spoken on the CPU in 2.1 s (no GPU on this machine)."
    assert page.get_attribute("tr[data-epoch='3'] .epoch", "aria-pressed") == "true"
    with page.expect_download() as saved:
        page.click("#keep-output")
    assert saved.value.suggested_filename == "current_epoch_3_output.wav"


@pytest.mark.parametrize("track", ["output", "reference"])
def test_a_player_plays_and_pauses(page, track):
    play(page, track)
    assert page.get_attribute(f"#play-{track}", "aria-label") == f"Pause {track}"
    page.click(f"#play-{track}")
    stood = position(page)
    page.wait_for_timeout(300)
    assert position(page) == stood
    assert page.get_attribute(f"#play-{track}", "aria-label") == f"Play {track}"


def test_switching_keeps_the_position_and_goes_on(page):
    play(page, seconds=0.4)
    # Both in one task: no time passes between them, however busy the machine is.
    before, after = page.evaluate(
        f"(() => {{ const before = {POSITION}; document.getElementById('switch').click();"
        f" return [before, {POSITION}]; }})()"
    )
    assert before - 0.011 <= after < before + 0.25
    assert page.text_content("#switch").startswith("Switch to output")
    until(page, f"{POSITION} > {after + 0.2}")
    assert page.get_attribute("#play-reference", "aria-label") == "Pause reference"
    assert page.get_attribute("#play-output", "aria-label") == "Play output"


def test_it_ends_at_the_end_and_begins_again_by_itself_in_a_loop(page):
    seek(page, 3.4)
    page.click("#play-reference")
    says(page, "now", "0:03.6")
    until(page, "!document.getElementById('play-reference').classList.contains('playing')")
    page.click("#play-reference")
    until(page, f"{POSITION} > 0.1 && {POSITION} < 3")
    page.click("#player-loop")
    seek(page, 3.3)
    until(page, f"{POSITION} < 3")
    assert page.get_attribute("#play-reference", "aria-label") == "Pause reference"


def test_what_is_heard_is_the_gain_that_says_so(page):
    """The audio graph: the audible source has a gain, the other has zero."""
    levels = page.evaluate("""async () => {
      const { Transport } = await import("/page/transport.js");
      const rate = 24000;
      const buffer = (level) => {
        const made = new AudioBuffer({ length: rate, sampleRate: rate });
        const tone = Float32Array.from({ length: rate }, (_, i) => level * Math.sin(i / 9));
        made.copyToChannel(tone, 0);
        return made;
      };
      const gains = [];
      const Gain = window.GainNode;
      window.GainNode = class extends Gain {
        constructor(...given) { super(...given); gains.push(this); }
      };
      const transport = new Transport(() => {});
      transport.load({ output: buffer(0.5), reference: buffer(0.1) });
      transport.play();
      const values = () => gains.slice(-2).map((node) => Number(node.gain.value.toFixed(2)));
      const first = values();
      transport.pause();
      transport.hear("reference");
      transport.play();
      const second = values();
      transport.pause();
      transport.match(false);
      transport.hear("output");
      transport.play();
      const third = values();
      transport.pause();
      return [first, second, third];
    }""")
    # The louder one is reduced to the level of the quieter one; unmatched it keeps its level.
    assert levels == [[0.2, 0], [0, 1], [1, 0]]


@pytest.mark.parametrize("track", ["output", "reference"])
def test_a_spectrogram_shows_sound_where_there_is_sound(page, track):
    inks = page.evaluate(f"""(() => {{
      const sheet = document.getElementById("sheet-{track}");
      const {{ data }} = sheet.getContext("2d").getImageData(0, 0, sheet.width, sheet.height);
      const seen = new Set();
      for (let i = 0; i < data.length; i += 4) if (data[i + 3]) seen.add(data[i] >> 4);
      return [seen.size, data[data.length - 1], sheet.getAttribute("aria-label")];
    }})()""")
    assert inks[0] > 6
    # The output is shorter: its lane is empty after its end.
    assert inks[1] == (0 if track == "output" else 255)
    assert f"Spectrogram of the {track}, 3" in inks[2]


def test_another_scale_is_another_picture(page):
    before = page.evaluate("document.getElementById('sheet-output').toDataURL()")
    page.select_option("#scale", "linear")
    assert page.evaluate("document.getElementById('sheet-output').toDataURL()") != before
    assert "linear scale" in page.get_attribute("#sheet-output", "aria-label")


def test_a_row_is_heard_and_paused_at_a_press_and_the_player_names_it(page):
    page.click("tr[data-epoch='1'] .row-play")
    until(page, f"{POSITION} > 0.2")
    assert page.text_content("#desk-title") == "Epoch 1"
    assert page.text_content("#player-by") == "Epoch 1" and page.text_content("#player-title") == TEXT
    assert page.get_attribute("tr[data-epoch='1'] .row-play", "aria-label") == "Pause epoch 1"
    page.click("tr[data-epoch='2'] .row-play")
    until(page, f"{POSITION} > 0.2 && document.getElementById('desk-title').textContent === 'Epoch 2'")
    page.click("tr[data-epoch='2'] .row-play")
    assert page.get_attribute("#play-output", "aria-label") == "Play output"
    page.click("#play-reference")
    says(page, "player-by", "The person")


@pytest.mark.parametrize("how", ["mouse", "keyboard"])
def test_space_and_x_work_after_an_epoch_was_chosen(page, how):
    """The main loop of listening: choose, play, switch, choose the next."""
    if how == "mouse":
        page.click("tr[data-epoch='1'] .epoch")
    else:
        page.focus("tr[data-epoch='1'] .epoch")
        page.keyboard.press("Enter")
    says(page, "desk-title", "Epoch 1")
    until(page, WORKS)
    assert position(page) == 0
    page.keyboard.press("Space")
    until(page, f"{POSITION} > 0.2")
    page.keyboard.press("x")
    assert page.get_attribute("#play-reference", "aria-label") == "Pause reference"
    page.keyboard.press("Space")
    stood = position(page)
    page.wait_for_timeout(200)
    assert position(page) == stood > 0.2


@pytest.mark.parametrize("pressed", ["#switch", "#match"])
def test_space_and_x_work_after_a_press_on_the_desk(page, pressed):
    page.click(pressed)
    told, matching = page.text_content("#switch"), page.is_checked("#match")
    page.keyboard.press("Space")
    until(page, f"{POSITION} > 0.1")
    assert (page.text_content("#switch"), page.is_checked("#match")) == (told, matching)
    page.keyboard.press("x")
    assert page.text_content("#switch") != told


def test_by_keyboard_a_button_of_the_desk_stays_a_button(page):
    page.focus("#switch")
    page.keyboard.press("Space")
    page.keyboard.press("Space")
    assert page.text_content("#switch").startswith("Switch to reference")
    assert position(page) == 0


def test_a_skipped_sample_is_told_with_its_reason(world, opened):
    skipped = epoch(4)
    skipped["sample"] |= {"mode": "skipped", "reason": "SAMPLE_DEVICE=off.", "output": None}
    world.epochs = [skipped]
    page = opened(view="compare", ready="#epochs-table")
    says(page, "desk-info", "SAMPLE_DEVICE=off.")
    assert page.text_content("#desk-empty") == "This epoch has no sample."
    assert page.is_hidden("#desk-works")


def test_a_missing_reference_leaves_the_output_playable(world, opened):
    world.epochs[-1]["sample"]["reference"] = None
    page = opened(view="compare", ready="#desk-works:not([hidden])")
    assert page.is_disabled("#play-reference")
    assert page.is_disabled("#switch")
    play(page)


def test_no_run_is_told_beside_the_next_step(world, opened):
    world.epochs, world.records, world.training = [], [], False
    page = opened(view="compare", ready="#epochs-empty:not([hidden])")
    assert page.text_content("#epochs-empty").strip().startswith("No epochs yet.")
    for nothing in ("#epochs-table", "#desk", "#curves", "#runs"):
        assert page.is_hidden(nothing), nothing
    page.click("#epochs-empty a")
    page.wait_for_selector("#start")


def test_the_word_of_the_sample_that_is_heard_is_marked(page):
    marked = "document.querySelector('#desk-text .word.now')?.textContent"
    assert page.evaluate(marked) is None
    for seconds, word in ((0.3, "harbour"), (2.3, "in")):
        seek(page, seconds)
        until(page, f"{marked} === '{word}'")
    page.click("#switch")
    # The person's recording has no word times.
    until(page, f"{marked} === undefined")
    assert page.text_content("#desk-text") == TEXT
