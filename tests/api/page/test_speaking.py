"""The speak box plays during synthesis; voices are added and removed."""

from urllib.parse import quote

import pytest

from tests.api.page.desk import (
    DONE,
    GENERATED,
    PHONE,
    SECONDS,
    add_voice,
    go,
    outside,
    say,
    says,
    speak,
    until,
)
from tests.api.page.world import speech, wav

pytestmark = pytest.mark.system


@pytest.fixture
def page(page):
    """The view that speaks; the run is known already."""
    go(page, "speak")
    return page


def test_a_sentence_is_heard_while_it_is_still_spoken_and_again(page, world):
    world.pause_seconds = 0.5
    say(page, "Good morning.")
    until(page, f"{SECONDS} > 0.1")
    assert page.is_enabled("#stop") and page.text_content("#say") == "Speak"
    until(page, DONE)
    assert page.is_disabled("#stop")
    assert page.text_content("#spoken-info").startswith("First sound after ")
    assert "2.4 s spoken in" in page.text_content("#spoken-info")
    assert page.evaluate(SECONDS) == pytest.approx(2.4, abs=0.05)
    (body,) = world.bodies
    assert body == {
        "model": "sotaque",
        "input": "Good morning.",
        "voice": "default",
        "response_format": "pcm",
        "stream_format": "sse",
        "timestamp_granularities": ["word"],
    }
    page.click("#again")
    until(page, f"{SECONDS} > 0.2 && {SECONDS} < 2.3")


def test_a_pause_of_the_server_is_told_and_nothing_is_lost(page, world):
    world.pause_seconds = 1.5
    speak(page, "Good morning.")
    assert page.text_content("#spoken-info").endswith("Playback paused once.")
    assert page.evaluate(SECONDS) == pytest.approx(2.4, abs=0.05)


def test_it_stops_at_a_click(page, world):
    world.pause_seconds = 3.0
    say(page, "Good morning.")
    until(page, f"{SECONDS} > 0.1")
    page.click("#stop")
    until(page, GENERATED)
    stood = page.evaluate(SECONDS)
    page.wait_for_timeout(300)
    assert page.evaluate(SECONDS) <= stood + 0.1
    assert page.is_hidden("#speak-fault")


def test_the_page_speaks_below_a_path_of_a_proxy(world, address, open_page):
    world.below = "/tts"
    page = open_page(f"{address}/tts/")
    speak(page, "Good morning.")
    assert world.spoken_with == ["/v1/audio/speech"]
    page.click("#request summary")
    until(page, "document.getElementById('as-curl').textContent !== ''")
    assert f"curl '{address}/tts/v1/audio/speech'" in page.text_content("#as-curl")


def test_the_box_is_free_as_soon_as_the_service_has_finished(page, world):
    """While the sound still plays, it can be saved, stopped and spoken with other settings."""
    page.click("#speak summary")
    say(page, "Good morning.")
    until(page, GENERATED)
    assert page.text_content("#again") == "Pause"
    assert all(page.is_enabled(button) for button in ("#take", "#again", "#keep-spoken"))
    page.fill("[name=seed]", "42")
    page.focus("#text")
    page.keyboard.press("Control+Enter")
    until(page, f"{GENERATED} && {SECONDS} > 0.1")
    assert [body.get("seed") for body in world.bodies] == [None, 42]
    page.click("#again")
    says(page, "again", "Play")
    stood = page.evaluate(SECONDS)
    assert stood < 2.3
    page.wait_for_timeout(300)
    assert page.evaluate(SECONDS) == stood


@pytest.mark.parametrize("by", ["Control+Enter", "the button"])
def test_speak_speaks_while_another_text_is_spoken(page, world, by):
    world.pause_seconds = 3.0
    say(page, "Good morning.")
    until(page, f"{SECONDS} > 0.1")
    world.pause_seconds = 0.0
    page.fill("#text", "Good night.")
    page.click("#say") if by == "the button" else page.keyboard.press(by)
    until(page, f"{DONE} && {GENERATED}")
    assert [body["input"] for body in world.bodies] == ["Good morning.", "Good night."]
    assert page.text_content("#spoken-text") == "Good night."
    assert "2.4 s spoken in" in page.text_content("#spoken-info")
    assert page.is_hidden("#speak-fault")


@pytest.mark.parametrize("gone", [True, False])
def test_a_refused_request_leaves_the_speech_before_it(page, world, gone):
    page.provoked += ["503", "ERR_INTERNET"]

    def refused() -> None:
        page.context.set_offline(gone)
        world.fault = None if gone else {"status": 503, "detail": "Too many speak; try again."}
        say(page, "Good night.")
        page.wait_for_selector("#speak-fault:not([hidden])")
        until(page, GENERATED)
        page.context.set_offline(False)
        world.fault = None

    refused()
    assert page.text_content("#spoken-info") == "Nothing was spoken."
    assert page.text_content("#spoken-text") == "" and page.is_disabled("#again")
    assert "automatically" not in page.text_content("#speak-fault")
    speak(page, "Good morning.")
    refused()
    told = "Nothing was spoken; the speech before it is still here."
    assert page.text_content("#spoken-info") == told
    assert page.text_content("#spoken-text") == "Good morning."
    page.click("#again")
    until(page, f"{SECONDS} > 0.2 && {SECONDS} < 2.3")
    with page.expect_download() as got:
        page.click("#keep-spoken")
    assert got.value.suggested_filename == "sotaque_Good-morning..wav"


def test_a_speech_that_breaks_off_is_told_and_can_be_asked_for_again(page, world):
    """The stream breaks without its last chunk, as when the speaking process is killed."""
    world.breaks_off = True
    say(page, "Good morning.")
    page.wait_for_selector("#speak-fault:not([hidden])")
    assert "stopped early" in page.text_content("#speak-fault")
    assert page.text_content("#spoken-info") == "Interrupted after 0.2 s."
    until(page, GENERATED)
    assert page.is_enabled("#again")  # The received part can be played again.
    world.breaks_off = False
    speak(page, "Good morning.")
    until(page, "document.getElementById('spoken-info').textContent.includes('2.4 s spoken in')")
    assert page.is_hidden("#speak-fault")
    page.provoked.append("ERR_INCOMPLETE_CHUNKED_ENCODING")


def test_another_take_is_said_with_the_next_seed(page, world):
    page.click("#speak summary")
    assert page.get_attribute("[name=seed]", "placeholder") == "0"
    speak(page, "Good morning.")
    for seed in (1, 2):
        page.click("#take")
        until(page, DONE)
        assert page.input_value("[name=seed]") == str(seed)
    assert [body.get("seed") for body in world.bodies] == [None, 1, 2]
    assert {body["input"] for body in world.bodies} == {"Good morning."}


def test_what_is_set_is_sent(page, world):
    page.click("#speak summary")
    page.fill("[name=speed]", "1.5")
    page.fill("[name=temperature]", "0.65")
    page.fill("[name=seed]", "7")
    page.select_option("#language", "pt")
    speak(page, "Bom dia.")
    fields = {"speed": 1.5, "temperature": 0.65, "seed": 7, "language": "pt"}
    assert fields.items() <= world.bodies[0].items()


def test_only_what_the_voice_speaks_is_offered(page, world):
    options = page.locator("#language option").all_text_contents()
    assert options == ["Default", "English", "Portuguese"]
    page.select_option("#language", "pt")
    world.languages = ("pt", "el")
    world.tell("status")
    until(page, "document.getElementById('language').options.length === 3")
    until(page, "document.getElementById('language').options[1].text === 'Greek'")
    assert page.input_value("#language") == "pt"


def test_a_language_that_was_added_to_the_voice_stays_chosen(page, world):
    world.languages = ("pt", "el")
    world.tell("status")
    until(page, "document.getElementById('language').options[1].text === 'Greek'")
    page.select_option("#language", "el")
    # The state while the speaking process restarts.
    world.languages, world.state = (), "restarting"
    world.tell("status")
    says(page, "state", "Restarting")
    assert page.input_value("#language") == "el"


def test_a_server_without_pcm_is_asked_for_wav(page, world):
    world.formats = ("wav",)
    speak(page, "Good morning.")
    assert [body["response_format"] for body in world.bodies] == ["pcm", "wav"]
    assert "2.4 s spoken in" in page.text_content("#spoken-info")
    page.provoked.append("400")


def test_what_cannot_be_spoken_is_told_as_the_servers_sentence(page, world):
    world.fault = {"status": 400, "detail": "temperature is 9.0; allowed is 0 to 2."}
    say(page, "Good morning.")
    page.wait_for_selector("#speak-fault:not([hidden])")
    assert page.text_content("#speak-fault") == world.fault["detail"]
    assert page.is_disabled("#stop")
    assert page.text_content("#spoken-text") == "" and page.is_disabled("#take")
    page.provoked.append("400")


def test_an_empty_text_is_not_sent(page, world):
    page.click("#say")
    assert page.evaluate("document.activeElement.id") == "text"
    assert world.bodies == []


def test_a_voice_is_added_chosen_and_removed_and_the_served_one_is_not(page, world, tmp_path):
    assert page.locator("#voice-list li").count() == 1
    # The served voice is not to be renamed or removed.
    buttons = page.locator("#voice-list .menu button").all_text_contents()
    assert buttons == ["Speak with it", "Copy its id"]
    (tmp_path / "anna.wav").write_bytes(wav(speech(1, 200)))
    add_voice(page, tmp_path / "anna.wav", "Anna")
    page.wait_for_selector("#voice-list li:has-text('Anna')")
    assert page.input_value("#voice") == world.voices[-1]["id"]
    speak(page, "Good morning.")
    assert world.bodies[-1]["voice"] == world.voices[-1]["id"]
    go(page, "voices")
    page.click("[aria-label='More for Anna']")
    remove = page.locator("#voice-list [aria-label$='emove Anna']")
    remove.click()
    assert remove.text_content() == "Confirm: remove"
    assert len(world.voices) == 2
    remove.click()
    page.wait_for_selector("#voice-list li:has-text('Anna')", state="detached")
    assert [voice["id"] for voice in world.voices] == ["default"]
    assert page.evaluate("document.activeElement.id") == "voices"


def test_speakers_and_styles_stand_with_their_person_and_speak(page, world):
    """In any order of the list: an uploaded voice's style was added long after the voice."""
    speakers, uploads = ("kim", "kim:calm", "ben"), ("Anna", "Eve", "anna : whisper")
    for name in (*speakers, *uploads):
        origin = "speaker" if name in speakers else "upload"
        identity = name if origin == "speaker" else f"v{len(world.voices)}"
        preview = f"/v1/voices/{quote(identity, safe='')}/preview.wav"
        more = {"origin": origin, "created": None, "preview": preview}
        world.voices.append({"id": identity, "name": name, **more})
    page.reload()
    page.wait_for_selector("#voice-list li:has-text('kim')", state="attached")
    tree = """(list) => [...list.children].map((item) => [item.querySelector(".name").textContent,
      [...item.querySelectorAll(":scope ul .name")].map((name) => name.textContent)])"""
    assert page.eval_on_selector("#voice-list", tree)[1:] == [
        ["kim", ["kim:calm"]],
        ["ben", []],
        ["Anna", ["anna : whisper"]],
        ["Eve", []],
    ]
    assert page.locator("ul[aria-label='Styles of kim'] li").count() == 1
    offered = """(select) => [...select.children].map((one) => one.tagName === "OPTGROUP"
      ? [one.label, ...[...one.children].map((of) => of.text)] : one.text)"""
    assert page.eval_on_selector("#voice", offered)[1:-1] == [
        ["kim", "kim", "kim:calm"],
        "ben",
        ["Anna", "Anna", "anna : whisper"],
        "Eve",
    ]
    for who in ("kim:calm", "ben", "v6"):
        page.select_option("#voice", who)
        speak(page, "Good morning.")
        assert world.bodies[-1]["voice"] == who
    go(page, "voices")
    for name in ("kim", "kim:calm"):  # Parts of a run: playable, but not to be renamed or removed.
        row = page.locator(f"#voice-list li:has(> p .name:text-is('{name}')) > .menu")
        assert row.locator("button").all_text_contents() == ["Speak with it", "Copy its id"]
    page.click("[aria-label='Play the recording of kim:calm']")
    page.wait_for_selector("[aria-label='Stop the recording of kim:calm']")
    assert page.locator("[aria-label='Rename anna : whisper']").count() == 1
    page.set_viewport_size(PHONE)
    assert outside(page, PHONE["width"], "#voice-list :is(button, p)") == []


def test_a_refused_recording_is_told(page, world, tmp_path):
    (tmp_path / "song.wav").write_bytes(b"no sound")
    world.fault = {"status": 400, "detail": "song.wav is no recording that can be read."}
    add_voice(page, tmp_path / "song.wav", "Song")
    page.wait_for_selector("#voices-fault:not([hidden])")
    assert page.text_content("#voices-fault") == world.fault["detail"]
    assert page.input_value("#voice-form [name=name]") == "Song"  # Nothing typed is lost.
    page.provoked.append("400")


MARKED = "document.querySelector('#spoken-text .word.now')?.textContent"


def test_the_word_that_is_spoken_is_marked(page, world):
    # Recorded in the page: a poll from outside may lag a word on a busy machine.
    page.evaluate(f"""() => {{
        window.marked = [];
        const now = () => document.querySelector('#spoken-text .word.now');
        const look = () => now() && window.marked.push(
            [{MARKED}, {SECONDS}, getComputedStyle(now()).textDecorationLine]);
        const where = document.querySelector('#spoken-text');
        const what = {{ subtree: true, attributes: true, attributeFilter: ['class'] }};
        new MutationObserver(look).observe(where, what);
    }}""")
    say(page, "One, two three four five.")
    until(page, f"{SECONDS} > 0.1")
    until(page, DONE)
    seen = page.evaluate("window.marked")
    assert page.text_content("#spoken-text") == "One, two three four five."
    words = [word for word, _, _ in seen]
    assert words == ["One", "two", "three", "four", "five"][-len(words) :] and len(words) >= 3
    starts = {"One": 0.2, "two": 0.6, "three": 1.0, "four": 1.4, "five": 1.8}
    # The time of the first word may arrive after the word has begun.
    assert all(starts[word] - 0.05 <= at <= starts[word] + 0.35 for word, at, _ in seen[1:])
    assert all("underline" in line for _, _, line in seen)
    assert page.evaluate(MARKED) is None
    page.click("#again")
    until(page, f"window.marked.length > {len(seen)}")
