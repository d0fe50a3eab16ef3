"""An evaluated run on the page: its table, the comparison of two candidates, and the notes."""

import io
import json
import re
from typing import Any

import pytest
import soundfile
from playwright.sync_api import Page

from tests.api.page import desk
from tests.api.page.conftest import Open
from tests.api.page.desk import says, until
from tests.api.page.fake import sentence_of
from tests.api.page.test_access import FOCUSED
from tests.api.page.world import SENTENCES, World, evaluation, figure_of, judged

pytestmark = pytest.mark.system
READY = "#judgement:not([hidden])"
ROWS = """[...document.querySelectorAll("#judged-table tbody tr")]
  .map((row) => row.dataset.candidate)"""
# The names of the desk's two lanes.
NAMES = """["output", "reference"]
  .map((track) => document.getElementById(`name-${track}`).textContent)"""


@pytest.fixture
def world() -> World:
    return World(evaluation=evaluation())


@pytest.fixture
def page(opened: Open) -> Any:
    """The page with the best epoch and the base on its desk."""
    opened_page = opened(view="compare", ready=READY)
    until(opened_page, desk.WORKS)
    return opened_page


def rows(page: Any) -> list[str]:
    return list(page.evaluate(ROWS))


def sorts(page: Any) -> dict[str, str]:
    """The sortable headings, and how each is sorted."""
    return dict(
        page.evaluate("""Object.fromEntries(
      [...document.querySelectorAll("#judged-table th[aria-sort]")]
        .map((heading) => [heading.dataset.column, heading.getAttribute("aria-sort")]))""")
    )


def heading(page: Any, name: str) -> Any:
    return page.locator("#judged-table .sort", has_text=re.compile(f"^{name}$"))


# The length of what lies as A, and that of the base's sentence.
SECONDS_OF = "document.getElementById('seconds-output').textContent"
BASE_SECONDS = f"""`${{({[round(sentence_of("base", number)[0], 1) for number in range(3)]})[
  Number(document.getElementById("sentence").value)].toFixed(1)}} s`"""


def test_the_base_is_first_and_the_best_says_why(page):
    assert rows(page) == ["base", "epoch_3", "epoch_2", "epoch_2_share_0.5", "epoch_1"]
    assert page.text_content("#verdict").startswith("Epoch 2 is the best: nearest")
    marks = page.locator("#judged-table .marks").all_text_contents()
    assert marks == ["", "ruled out", "best", "", "no measurable difference"]
    cells = page.locator("tr[data-candidate='epoch_3'] td").all_text_contents()
    assert cells[0] == "2 unfinished"
    # In words too, not only by a symbol.
    assert cells[2] == "▲better than the base: 0.65±0.06"
    facts = page.locator("#candidate-facts li").all_text_contents()
    assert "Every sentence finished." in facts
    assert any(fact.startswith("Voice 0.50 (0.44 to 0.56). Against the base") for fact in facts)
    page.click("tr[data-candidate='epoch_3'] .epoch")
    facts = page.locator("#candidate-facts li").all_text_contents()
    assert facts[:2] == [
        "Cannot be the best: Two of three sentences never end.",
        "It speaks 8 % slower than the person.",
    ]


def test_a_picture_says_how_far_a_candidate_came(page):
    ways = "#ways > div"
    assert page.text_content("#way-title") == "From the base to the person: epoch 2"
    assert page.locator(ways).all_inner_texts() == [
        "Voice\n38 % of the way · the person",
        "Words\nno measurable difference from the base · no word lost",
        "Pitch\n67 % of the way · the person's pitch",
    ]
    page.click("tr[data-candidate='base'] .epoch")
    until(page, "document.querySelector('#ways dd').textContent.startsWith('here it begins')")


def test_a_pitch_further_from_the_persons_is_worse_in_words_and_by_its_sign(world, opened):
    """What is better, worse or different is decided in scripts.test.js."""
    world.evaluation = evaluation()
    for candidate in world.evaluation["candidates"]:
        is_base = candidate["kind"] == "base"
        figure = figure_of(-6.1, None, 2.2) if is_base else figure_of(-12.8, -6.1, 2.2)
        candidate["judges"]["pitch_drift_percent"] = figure
    page = opened(view="compare", ready=READY)
    cell = page.locator("tr[data-candidate='epoch_2'] td[data-label='Pitch']")
    assert cell.text_content() == "▼ worseworse than the base: -12.8 %±2.2"
    assert cell.locator(".mark.worse").inner_text() == "▼ worse"
    facts = page.locator("#candidate-facts li").all_text_contents()
    assert any(fact.startswith("Pitch -12.8") and "worse than the base" in fact for fact in facts)


def test_each_judge_sorts_and_the_base_stays(page):
    assert sorts(page) == {"epoch": "descending"}
    heading(page, "Voice").click()
    assert sorts(page) == {"voice": "descending"}  # higher is better: the best first
    assert rows(page)[:3] == ["base", "epoch_3", "epoch_2"]
    heading(page, "Voice").click()
    assert sorts(page) == {"voice": "ascending"}
    assert rows(page)[0] == "base" and rows(page)[-1] == "epoch_3"
    heading(page, "Rate").click()  # the nearest to 0 first, on either side
    assert sorts(page) == {"rate_drift_percent": "ascending"}
    assert rows(page) == ["base", "epoch_2_share_0.5", "epoch_1", "epoch_2", "epoch_3"]
    heading(page, "Failed").focus()
    page.keyboard.press("Enter")
    assert sorts(page) == {"failed": "ascending"} and rows(page)[-1] == "epoch_3"
    heading(page, "Audio loss").click()  # a blend has none: it is last in either order
    assert rows(page)[-1] == "epoch_2_share_0.5"
    heading(page, "Audio loss").click()
    assert rows(page)[-1] == "epoch_2_share_0.5"


def test_the_meaning_of_a_figure_comes_with_pointer_and_focus_and_stands_as_text(page):
    shown = "getComputedStyle(document.getElementById('tip-words')).visibility"
    words = heading(page, "Words")
    assert page.evaluate(shown) == "hidden"
    words.focus()
    assert page.evaluate(shown) == "visible"
    assert words.get_attribute("aria-describedby") == "tip-words"
    page.keyboard.press("Escape")
    assert page.evaluate(shown) == "hidden"
    page.focus("#desk")
    words.hover()
    assert page.evaluate(shown) == "visible"
    told = page.text_content("#tip-words")
    assert told == (
        "How much of the text the sound follows (share; higher is better). "
        "The smallest measurable difference is 0.05."
    )
    page.click("#figures summary")
    assert told in page.text_content("#meanings")
    assert "Not measured: no recogniser is installed" in page.text_content("#meanings")
    assert heading(page, "Word errors").count() == 0


def test_two_candidates_say_the_same_sentence_on_one_clock(page, world):
    assert page.evaluate(NAMES) == ["Epoch 2", "The base"]
    assert page.text_content("#desk-text") == SENTENCES[0]
    assert page.text_content("#switch").startswith("Switch to the base")
    page.select_option("#sentence", "1")
    until(page, f"document.getElementById('desk-text').textContent === {SENTENCES[1]!r}")
    until(page, desk.WORKS)
    with page.expect_response("**/candidates/epoch_3/sentences/1.wav"):
        page.select_option("#against", "epoch_3")
    until(page, desk.WORKS)
    assert page.evaluate(NAMES) == ["Epoch 2", "Epoch 3"]
    page.click("tr[data-candidate='base'] .epoch")
    until(page, desk.WORKS)
    assert page.evaluate(NAMES) == ["The base", "Epoch 3"]
    desk.play(page)
    # One of the choices is an epoch's sample and the person's recording.
    page.click("tr[data-candidate='epoch_1'] .epoch")
    page.select_option("#sentence", "sample")
    until(page, desk.WORKS)
    assert page.evaluate(NAMES) == ["Output", "Reference"]
    assert page.is_disabled("#against") and page.is_hidden("#judgement")


def test_the_choice_outlives_news_and_the_best_is_not_put_over_it(page, world):
    page.click("tr[data-candidate='epoch_1'] .epoch")
    page.select_option("#sentence", "2")
    page.select_option("#against", "epoch_3")
    world.evaluation = evaluation("epoch_3", made_at="2026-01-02T04:00:00Z")
    world.tell("epoch")
    until(page, "document.getElementById('verdict').textContent.startsWith('Epoch 3 is')")
    assert page.input_value("#sentence") == "2" and page.input_value("#against") == "epoch_3"
    assert page.text_content("#desk-title") == "Epoch 1 and epoch 3"


def tab_to(page: Any, name: str, key: str = "Tab") -> None:
    for _ in range(80):
        page.keyboard.press(key)
        focused, outlined = page.evaluate(FOCUSED)
        assert outlined, f"the focus cannot be seen on {focused}"
        if focused == name:
            return
    raise AssertionError(f"{name} is not reached by {key}")


def test_a_blind_comparison_by_keyboard_alone(world, opened, tmp_path):
    page = opened(view="compare", ready=READY)
    until(page, desk.WORKS)
    tab_to(page, "Listen to epoch 3")
    page.keyboard.press("Enter")
    says(page, "desk-title", "Epoch 3 and the base")
    tab_to(page, "against")
    page.keyboard.type("Epoch 1")
    says(page, "desk-title", "Epoch 3 and epoch 1")
    tab_to(page, "blind")
    page.keyboard.press("Space")
    says(page, "desk-title", "Blind comparison")
    until(page, desk.WORKS)
    # The desk does not reveal the candidates.
    assert page.evaluate(NAMES) == ["A", "B"]
    shown = page.inner_text("#desk")
    assert "epoch 3" not in shown.lower()
    assert page.get_attribute("#play-output", "aria-label") == "Play A"
    assert page.is_hidden("#keep-output")
    tab_to(page, "play-output")
    page.keyboard.press("Enter")
    until(page, "document.getElementById('position').valueAsNumber > 0.2")
    page.keyboard.press("x")
    heard = "document.querySelector('.lane.heard').dataset.track"
    assert page.evaluate(heard) == "reference"
    tab_to(page, "note")
    page.keyboard.type("1 and n and r are letters here")
    assert page.text_content("#judged-info") == ""
    tab_to(page, "prefer-b", "Shift+Tab")
    page.keyboard.press("1")
    assert cast(page) == ["prefer-a"]
    assert page.text_content("#judged-info") == "Noted: A is better, sentence 1."
    # Notes stay hidden, or they would reveal the candidates.
    assert page.text_content("#notes-title") == "Notes (1)"
    assert page.locator("#note-list li").count() == 0
    page.keyboard.press("n")
    until(page, f"document.getElementById('desk-text').textContent === {SENTENCES[1]!r}")
    until(page, desk.WORKS)
    assert cast(page) == []
    desk.pressed(page, "0", "r")
    told = page.text_content("#judged-info")
    assert told.endswith(" You noted no difference.") and cast(page) == ["prefer-none"]
    match = re.match(r"A is (epoch [13]), B is (epoch [13])\.", told)
    assert match and match[1] != match[2]
    assert page.evaluate(NAMES) == [match[1].capitalize(), match[2].capitalize()]
    tab_to(page, "notes-title")
    page.keyboard.press("Enter")
    noted = page.locator("#note-list li").all_text_contents()
    assert len(noted) == 2 and noted[0].endswith(", blind. 1 and n and r are letters here")
    assert "no difference in 1." in page.text_content("#tally")
    # The note names the candidate that was really A.
    page.reload()
    page.wait_for_selector(READY)
    assert page.text_content("#notes-title") == "Notes (2)"
    page.click("#notes summary")
    with page.expect_download() as saved:
        page.click("#save-notes")
    saved.value.save_as(tmp_path / "notes.json")
    (first, second) = json.loads((tmp_path / "notes.json").read_text())
    assert (first["preferred"], first["blind"], first["sentence"]) == ("a", True, 0)
    assert {first["a"]["id"], first["b"]["id"]} == {"epoch_1", "epoch_3"}
    assert second["preferred"] is None
    page.click("#delete-notes")
    page.click("#delete-notes")
    assert page.text_content("#notes-title") == "Notes (0)"
    assert page.evaluate("Object.values(localStorage).join()") == ""


def cast(page: Any) -> list[str]:
    """The ids of the votes that are marked."""
    return page.eval_on_selector_all("#judgement [aria-pressed=true]", "all => all.map((o) => o.id)")


@pytest.mark.parametrize("vote", ["a", "b"])
def test_a_vote_stays_marked_when_the_names_are_revealed(page, vote):
    page.check("#blind")
    says(page, "desk-title", "Blind comparison")
    until(page, desk.WORKS)
    assert cast(page) == []
    page.click(f"#prefer-{vote}")
    page.click("#reveal")
    until(page, "!document.getElementById('judged-info').textContent.startsWith('Noted')")
    assert page.text_content("#judged-info").endswith(f" You preferred {vote.upper()}.")
    assert cast(page) == [f"prefer-{vote}"]
    preferred = page.text_content(f"#prefer-{vote}")
    # The vote is found again without the blind comparison, on whichever side it is now.
    page.uncheck("#blind")
    until(page, "document.getElementById('judged-info').textContent === ''")
    (marked,) = cast(page)
    assert page.text_content(f"#{marked}")[:12] == preferred[:12]
    page.keyboard.press("n")
    until(page, f"document.getElementById('desk-text').textContent === {SENTENCES[1]!r}")
    assert cast(page) == []


def test_sides_are_drawn_anew_and_the_note_names_who_lay_where(page):
    """Both sides occur in twelve draws, and the candidate that plays as A is noted as A."""
    page.check("#blind")
    first = []
    for _ in range(12):
        until(page, desk.WORKS)
        with page.expect_response("**/sentences/*.wav"):
            page.keyboard.press("n") if first else page.click("#next-sentence")
        until(page, desk.WORKS)
        page.click("#prefer-a")
        page.click("#reveal")
        told = page.text_content("#judged-info")
        name = page.text_content("#name-output")
        assert told.startswith(f"A is {name[0].lower()}{name[1:]},")
        stored = page.evaluate("JSON.parse(Object.values(localStorage)[0])")
        assert stored[-1]["a"]["name"].lower() == name.lower()
        seconds = float(page.text_content("#seconds-output").split()[0])
        where = f"v1/runs/current/candidates/{stored[-1]['a']['id']}/sentences"
        address = f"{page.url.partition('#')[0]}{where}/{stored[-1]['sentence']}.wav"
        body = page.request.get(address).body()
        expected = soundfile.info(io.BytesIO(body)).duration
        assert seconds == pytest.approx(expected, abs=0.06)
        first.append(name)
    assert set(first) == {"The base", "Epoch 2"}


def test_a_blind_test_counts_and_ends_with_a_sum_and_the_chance_of_luck(page):
    page.check("#blind")
    says(page, "blind-sum", "Judged blind: 0 of 3.")
    for number in (1, 2, 3):
        until(page, desk.WORKS)
        # The base is preferred each time, wherever it lies.
        page.click("#prefer-a" if page.evaluate(SECONDS_OF) == page.evaluate(BASE_SECONDS) else "#prefer-b")
        if number < 3:
            says(page, "blind-sum", f"Judged blind: {number} of 3.")
            assert page.is_hidden("#by-ear")
            with page.expect_response("**/sentences/*.wav"):
                page.keyboard.press("n")
    told = "The base is preferred 3 : 0. Guessing gives such a result in 25 % of tests: it may be luck."
    says(page, "blind-sum", f"Judged blind: 3 of 3. {told}")
    assert page.text_content("#by-ear") == f"By your ear, blind: {told}"


def test_notes_about_an_epoch_that_was_trained_again_are_not_told(page, world):
    page.click("#prefer-a")
    assert page.text_content("#notes-title") == "Notes (1)"
    assert page.text_content("#judged-info") == "Noted: epoch 2 is better, sentence 1."
    again = evaluation(made_at="2026-01-02T04:00:00Z")
    again["candidates"][2]["checkpoint_sha256"] = "f" * 64
    world.evaluation = again
    world.tell("epoch")
    says(page, "notes-title", "Notes (0)")


def test_a_typed_sentence_is_spoken_by_an_epoch_that_is_not_served(page, world):
    where = "/v1/runs/current/candidates/epoch_1/speech"
    choices = page.locator("#voice optgroup option").all_text_contents()
    assert choices == ["The base", "Epoch 1", "Epoch 2", "Epoch 3"]  # no blend
    desk.go(page, "speak")
    page.select_option("#voice", where)
    assert page.text_content("#speaks-with") == "with epoch 1, not served"
    desk.speak(page, "Good morning.")
    assert world.spoken_with == [where]
    assert world.bodies[0]["voice"] == "default" and world.promoted is None
    # An epoch pruned meanwhile is no longer offered, and the served voice takes its place.
    world.evaluation["candidates"][1]["can_speak"] = False
    world.tell("epoch")
    until(page, "document.getElementById('voice').value === 'default'")
    says(page, "speaks-with", "with epoch 3")


def test_the_best_is_suggested_and_served_at_a_press(page, world):
    assert page.text_content("#suggestion-text") == "Epoch 2 is not served."
    page.click("#suggest")
    until(page, "document.getElementById('suggestion').hidden")
    assert world.promoted == 2
    assert page.text_content("#served") == "Serving epoch 2, as you chose."
    assert page.text_content("#follow") == "Serve the best again"


def test_the_base_may_be_best_with_what_to_try(world, opened):
    world.evaluation = evaluation("base")
    world.evaluation["verdict"]["advice"] = "Try more clips, or a lower learning rate."
    page = opened(view="compare", ready=READY)
    assert page.text_content("#verdict").startswith("Base is the best")
    assert page.text_content("#advice") == "Try more clips, or a lower learning rate."
    assert page.text_content("#suggestion-text").endswith("leave VOICE empty, or set VOICE=best.")
    assert page.is_hidden("#suggest")
    # It is still compared, with the newest epoch.
    assert page.text_content("#desk-title") == "Epoch 3 and the base"


def test_an_epoch_that_is_not_judged_yet_stands_in_the_table(world, opened):
    del world.evaluation["candidates"][3]
    page = opened(view="compare", ready=READY)
    assert rows(page)[1] == "epoch_3"
    assert page.text_content("tr[data-candidate='epoch_3'] .marks") == "not evaluated yet"
    page.click("tr[data-candidate='epoch_3'] .epoch")
    says(page, "desk-title", "Epoch 3")
    until(page, desk.WORKS)
    assert page.evaluate(NAMES) == ["Output", "Reference"]


def test_a_run_without_an_evaluation_has_its_epochs_alone(world, opened):
    world.evaluation = None
    page = opened(view="compare", ready="#desk-works:not([hidden])")
    assert all(page.is_hidden(gone) for gone in ("#judged", "#pair", "#judgement"))
    assert page.is_visible("#epochs-table")
    assert not page.evaluate("document.getElementById('main').classList.contains('judged')")
    assert page.text_content("#served") == "Serving epoch 3. A newer epoch replaces it automatically."


@desk.LOOKS
def test_names_contrast_and_width(world, opened, width, scheme):
    page = opened(
        view="compare",
        ready=READY,
        color_scheme=scheme,
        has_touch=width < 400,
        viewport={"width": width, "height": 844},
    )
    until(page, desk.WORKS)
    for opens in ("#figures", "#candidate", "#notes"):
        page.click(f"{opens} summary")
    page.click("#prefer-a")
    assert desk.faults(page, width, 100) == []
    # Sections never overlap.
    over = page.evaluate("""(() => {
      const boxes = [...document.querySelectorAll("[data-view=compare] > section")].map((one) =>
        [one.id, one.getBoundingClientRect()]);
      return boxes.flatMap(([a, x], i) => boxes.slice(i + 1)
        .filter(([, y]) => x.left < y.right && y.left < x.right)
        .filter(([, y]) => x.top < y.bottom - 1 && y.top < x.bottom - 1)
        .map(([b]) => `${a} and ${b}`));
    })()""")
    assert over == []
    if width < 400:
        parts = "#judged button, #judgement button, #pair select, #judgement summary, #pair .check"
        assert desk.too_small(page, parts) == []


def settled(page: Page, expression: str) -> object:
    """The value of an expression once it has been the same for a second."""
    values = [page.evaluate(expression)]
    while len(values) < 5 or len(set(values[-5:])) > 1:
        assert len(values) < 100, values
        page.wait_for_timeout(250)
        values.append(page.evaluate(expression))
    return values[-1]


def test_nothing_moves_under_the_hand(page):
    """Sorting, a tooltip, a judgement and another sentence do not move the desk."""
    top = "document.getElementById('desk').getBoundingClientRect().top + scrollY"
    size = "document.getElementById('judged-table').getBoundingClientRect().width"
    # The lists above the desk load separately.
    before = settled(page, top), page.evaluate(size)
    for name in ("Words", "Rate", "Rate", "Failed"):
        heading(page, name).click()
        assert (page.evaluate(top), page.evaluate(size)) == before, name
    end = "document.getElementById('notes').getBoundingClientRect().top + scrollY"
    until(page, desk.WORKS)
    foot = page.evaluate(end)
    page.click("#prefer-a")
    page.click("#next-sentence")
    until(page, desk.WORKS)
    assert (page.evaluate(top), page.evaluate(end)) == (before[0], foot)


def test_words_are_only_words_in_an_evaluation_too(world, opened):
    evaluation = world.evaluation
    evaluation["verdict"] |= {"reason": desk.EVIL, "advice": desk.EVIL}
    evaluation["candidates"][2] |= {"remarks": [desk.EVIL], "ruled_out": desk.EVIL}
    evaluation["judges"] = {
        **evaluation["judges"],
        "words": {**evaluation["judges"]["words"], "meaning": desk.EVIL},
    }
    page = opened(view="compare", ready=READY)
    page.fill("#note", desk.EVIL)
    page.click("#prefer-a")
    for place in ("#verdict", "#candidate-facts", "#note-list"):
        assert desk.EVIL in page.text_content(place)
    assert desk.is_only_words(page)


def test_a_damaged_store_of_notes_is_none(world, opened):
    page = opened(view="compare", ready=READY)
    key = f"sotaque-notes-{'5' * 64}"
    page.evaluate(f"localStorage.setItem({key!r}, '{{\"a\": 1}}')")
    page.reload()
    page.wait_for_selector(READY)
    assert page.text_content("#notes-title") == "Notes (0)"
    page.click("#prefer-none")
    assert page.text_content("#notes-title") == "Notes (1)"


def test_the_judged_rows_are_what_they_are_compared_by():
    """The fake values differ enough that a wrong order would fail."""
    means = [judged(number)["judges"]["rate_drift_percent"]["mean"] for number in (1, 2, 3)]
    assert means == sorted(means, key=abs) and means != sorted(means)
