"""The page while training runs: new epochs, curves, promotion, faults, and the key."""

import pytest

from tests.api.page.desk import says, shows_serving, until
from tests.api.page.world import epoch

pytestmark = pytest.mark.system


def test_an_epoch_appears_when_the_server_tells_of_it(page, world):
    says(page, "live", "Live")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(4000)
    assert [url for url in asked if "/v1/runs" in url] == []  # The events replace polling.
    page.focus("tr[data-epoch='2'] button")
    world.add(epoch(4))
    page.wait_for_selector("tr[data-epoch='4']")
    says(page, "desk-title", "Epoch 4")
    until(page, "document.getElementById('announcement').textContent.includes('Epoch 4')")
    # The focus has not moved.
    assert page.evaluate("document.activeElement.closest('tr')?.dataset.epoch") == "2"
    until(page, "document.querySelector('#loss-chart svg').ariaLabel.includes('step 160')")


def test_an_epoch_appears_without_events_too(world, opened):
    world.events = False
    page = opened(view="compare", ready="#epochs-table")
    world.add(epoch(4))
    page.wait_for_selector("tr[data-epoch='4']")
    page.provoked.append("404")


def test_what_was_chosen_or_is_heard_stays_when_a_newer_epoch_appears(page, world):
    def comes(number):
        world.add(epoch(number))
        page.wait_for_selector(f"tr[data-epoch='{number}']")
        assert page.text_content("#desk-title") == "Epoch 3"

    page.click("#play-output")
    page.click("#player-loop")
    comes(4)
    assert page.get_attribute("#play-output", "aria-label") == "Pause output"
    page.click("#play-output")
    comes(5)
    page.click("tr[data-epoch='2'] .epoch")
    says(page, "desk-title", "Epoch 2")
    world.add(epoch(6))
    page.wait_for_selector("tr[data-epoch='6']")
    assert page.text_content("#desk-title") == "Epoch 2"


def test_a_recording_that_could_not_be_read_is_asked_for_again(page, world):
    page.route("**/epochs/1/*.wav", lambda route: route.fulfill(status=503, body="busy"))
    page.click("tr[data-epoch='1'] .epoch")
    page.wait_for_selector("#desk-fault:not([hidden])")
    told = page.text_content("#desk-fault")
    assert told == "The server answered with status 503 and no message."
    page.unroute("**/epochs/1/*.wav")
    page.click("tr[data-epoch='1'] .epoch")
    page.wait_for_selector("#desk-works:not([hidden])")
    assert page.is_hidden("#desk-fault")
    page.provoked.append("503")


def test_promoting_changes_what_is_served_and_can_be_taken_back(page, world):
    assert page.text_content("#served") == "Serving epoch 3. A newer epoch replaces it automatically."
    assert page.is_hidden("#follow")
    page.click("tr[data-epoch='1'] .serve button")
    shows_serving(page, 1)
    assert world.promoted == 1
    assert page.text_content("#served") == "Serving epoch 1, as you chose."
    says(page, "fact-voice", "epoch 1")
    page.click("#follow")
    shows_serving(page, 3)
    assert world.promoted is None


def test_what_cannot_be_served_has_no_button_and_says_why(world, opened):
    world.epochs = [epoch(1, checkpoint_state="pruned"), epoch(2, checkpoint_state="damaged"), epoch(3)]
    page = opened(view="compare", ready="#epochs-table")
    page.wait_for_selector("tr[data-epoch='3']")
    for number, reason in ((1, "pruned"), (2, "damaged")):
        row = page.locator(f"tr[data-epoch='{number}']")
        assert row.locator(".serving").text_content() == reason
        assert row.locator("button:has-text('Serve')").is_hidden()


def test_the_strip_says_what_runs_where_and_why(world, opened):
    world.state, world.message = "degraded", "Asked for CUDA; there is no GPU, so the CPU speaks."
    page = opened(ready="#message:not([hidden])")
    for place, told in (
        ("state", "Ready, not as configured"),
        ("fact-device", "CPU"),
        ("fact-provider", "torch"),
        ("message", world.message),
    ):
        assert page.text_content(f"#{place}") == told
    world.state, world.message = "ready", ""
    world.tell("status")
    says(page, "state", "Ready")
    assert page.is_hidden("#message")


def test_the_curves_are_a_table_too(page):
    page.click("#numbers summary")
    page.wait_for_selector("#numbers tbody tr")
    rows = page.locator("#numbers tbody tr").all_text_contents()
    assert len(rows) == 3
    assert rows[0].startswith("Epoch 140")  # Epoch 1, step 40.
    assert "3.400" in rows[0] and "0.620" in rows[0]
    label = page.get_attribute("#loss-chart svg", "aria-label")
    assert "validation: from 3.400 at step 40 to 2.686 at step 120" in label


def test_a_fault_is_told_as_its_sentence(page, world):
    world.fault = {"status": 503, "detail": "The voice is being changed; try again in 2 s."}
    page.click("tr[data-epoch='1'] .serve button")
    page.wait_for_selector("#epochs-fault:not([hidden])")
    assert page.text_content("#epochs-fault") == world.fault["detail"]
    assert "{" not in page.text_content("header")
    world.fault = None
    page.click("tr[data-epoch='1'] .serve button")
    page.wait_for_selector("#epochs-fault", state="hidden")
    page.provoked.append("503")


def test_a_server_that_goes_away_is_told_and_found_again(page, world):
    says(page, "live", "Live")
    page.context.set_offline(True)
    page.click("tr[data-epoch='1'] .serve button")
    page.wait_for_selector("#fault:not([hidden])")
    assert page.text_content("#fault").startswith("The server does not respond.")
    assert page.text_content("#state") == "Not responding"
    page.context.set_offline(False)
    world.tell("status")
    world.tell("epoch")
    says(page, "state", "Ready")
    page.wait_for_selector("#fault", state="hidden")
    page.provoked.append("ERR_INTERNET")


def test_speakers_appear_once_the_voice_is_open(world, opened):
    """While the service starts, it knows neither the languages nor the speakers of the voice."""
    world.languages = ()
    page = opened(view="speak")
    says(page, "live", "Live")
    world.voices.append({"id": "zoe", "name": "zoe", "origin": "speaker", "created": None})
    world.languages = ("en",)
    world.tell("status")
    page.wait_for_selector("#voice option[value='zoe']", state="attached")


@pytest.mark.parametrize(
    ("view", "path", "fault", "event"),
    [
        ("books", "books", "books-fault", "book"),
        ("train", "datasets", "reading-fault", "dataset"),
        ("train", "trainings", "train-fault", "training"),
    ],
)
def test_a_list_that_could_not_be_read_once_is_read_again_and_no_longer_told(
    world, opened, view, path, fault, event
):
    page = opened(view=view)
    says(page, "live", "Live")
    page.route(f"**/v1/{path}", lambda route: route.abort())
    world.tell(event)
    page.wait_for_selector(f"#{fault}:not([hidden])", state="attached")
    page.unroute(f"**/v1/{path}")
    world.tell(event)
    page.wait_for_selector(f"#{fault}", state="hidden")
    page.provoked.append("ERR_FAILED")


def test_the_key_is_asked_for_kept_in_the_tab_and_sent(world, opened):
    world.key = "correct horse"
    page = opened(view="compare", ready="#key-dialog[open]")
    assert page.evaluate("document.activeElement.id") == "key"
    page.keyboard.press("Escape")
    page.wait_for_selector("#key-dialog[open]")
    page.fill("#key", "wrong")
    page.keyboard.press("Enter")
    page.wait_for_selector("#key-fault:not([hidden])")
    assert "rejects this key" in page.text_content("#key-fault")
    assert "API_KEY" in page.text_content("#key-fault")
    assert "Bearer" not in page.text_content("#key-dialog")
    page.fill("#key", "schlüssel €")
    page.keyboard.press("Enter")
    until(page, "document.getElementById('key-fault').textContent.includes('ASCII')")
    page.fill("#key", "correct horse")
    page.keyboard.press("Enter")
    page.wait_for_selector("tr[data-epoch='3']")
    page.wait_for_selector("#desk-works:not([hidden])")
    assert page.evaluate("Object.keys(localStorage).length + document.cookie.length") == 0
    page.reload()
    page.wait_for_selector("tr[data-epoch='3']")
    assert page.is_hidden("#key-dialog")
    page.provoked.append("401")


def test_a_key_is_remembered_for_another_tab_only_if_that_is_wished(world, opened):
    world.key = "correct horse"
    page = opened(ready="#key-dialog[open]")
    page.fill("#key", "correct horse")
    page.check("#key-stays")
    page.keyboard.press("Enter")
    page.wait_for_selector("#voice-list li", state="attached")
    tab = page.context.new_page()
    tab.goto(page.url)
    tab.wait_for_selector("#voice-list li", state="attached")
    assert tab.is_hidden("#key-dialog")
    # A key that no longer fits is asked for again, and forgotten without the tick.
    world.key = "another"
    tab.reload()
    tab.wait_for_selector("#key-dialog[open]")
    tab.fill("#key", "another")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#voice-list li", state="attached")
    assert tab.evaluate("localStorage.getItem('sotaque-key')") is None
    page.provoked.append("401")
