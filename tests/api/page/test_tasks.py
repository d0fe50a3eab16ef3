"""Ten tasks on the page by a hand that counts: how often a person presses, and whether the result
of each press can be seen without a scroll. docs/develop/log.md has the table."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.api.page.desk import DONE, PATIENCE_MILLISECONDS, PHONE, POSITION, says
from tests.api.page.fake_studio import FakeStudio
from tests.api.page.hand import Hand
from tests.api.page.hearing import browser_hearing
from tests.api.page.world import RATE, World, epoch, evaluation, speech, wav

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]
DESKTOP = {"width": 1280, "height": 800}
READ, JUDGED = 10, 6
TAKES = "document.querySelectorAll('#take-list > li').length"
HEARD = "document.querySelector('.lane.heard').dataset.track"
KEPT = "document.getElementById('reading-count').textContent.split(' ')[0]"


@dataclass
class Desk:
    """What a task works with."""

    page: Any
    hand: Hand
    world: World
    folder: Path

    def go(self, view: str) -> None:
        self.hand.press(f"#index a:text-is('{view}')", f"#index [aria-current]:text-is('{view}')")


def speak(desk: Desk) -> None:
    desk.hand.type("#text", "Good morning.")
    desk.hand.press("#say", "#spoken-sheet")
    desk.hand.sees("#player-toggle", "#say")
    desk.hand.waits(DONE)


def compare_takes(desk: Desk) -> None:
    before = desk.page.evaluate(TAKES)
    desk.hand.type("#text", "Good night.")
    desk.hand.press("#say", "#spoken-sheet")
    for number in (1, 2):
        desk.hand.waits(f"{DONE} && {TAKES} === {before + number}")
        desk.hand.press("#take", "#spoken-sheet")
    desk.hand.waits(f"{DONE} && {TAKES} === {before + 3}")
    for number in (3, 2, 1):
        desk.hand.press(f"#take-list > li:nth-child({number}) .round", "#player-toggle.playing")
    desk.hand.waits(DONE)


def save_while_speaking(desk: Desk) -> None:
    desk.world.pause_seconds = 3.0
    desk.hand.type("#text", "Good evening.")
    desk.hand.press("#say", "#player-toggle")
    desk.hand.waits("document.getElementById('player-length').textContent.endsWith('so far')")
    with desk.page.expect_download() as got:
        desk.hand.press("#player-save", "#player-save")
    assert Path(got.value.path()).stat().st_size > 2 * RATE
    desk.world.pause_seconds = 0.0
    desk.hand.waits(DONE)


def upload(desk: Desk) -> None:
    recording = desk.folder / "Anna.wav"
    recording.write_bytes(wav(speech(2.0, 180)))
    desk.go("Voices")
    desk.hand.choose_file("[name=file]", recording)
    desk.hand.press("#voice-form [type=submit]", "#voices-told button")


def record(desk: Desk) -> None:
    desk.go("Voices")
    desk.hand.press("#record", "#record-level")
    desk.hand.waits("parseFloat(document.getElementById('record-time').textContent) >= 2")
    desk.hand.press("#record", "#trim")
    desk.hand.type("#voice-form [name=name]", "Ben")
    desk.hand.press("#voice-form [type=submit]", "#voices-told button")


def read_and_train(desk: Desk) -> None:
    desk.go("Train")
    desk.hand.type("#reading-name", "ana")
    desk.hand.press("#reading-form [type=submit]", "#reading-text")
    desk.hand.press("#reading-on", "#reading-record")
    desk.hand.press("#reading-record", "#reading-level")
    for number in range(1, READ + 1):
        desk.page.wait_for_timeout(500)
        desk.hand.press("#reading-keep", "#reading-text")
        desk.hand.waits(f"{KEPT} === '{number}'")
    desk.hand.press("#start a:text-is('Train')", "#train")
    desk.hand.press("#train", "#trainings li:has-text('ana')")


def hear_while_training(desk: Desk) -> None:
    desk.world.training = True
    desk.world.add(epoch(1))
    desk.go("Compare")
    desk.hand.press("tr[data-epoch='1'] .row-play", "#player-toggle.playing")
    desk.hand.waits(f"{POSITION} > 0.2")


def judge_blind(desk: Desk) -> None:
    desk.page.evaluate("location.hash = '#/speak'")
    desk.world.training = False
    desk.world.epochs += [epoch(2), epoch(3)]
    desk.world.evaluation = evaluation()
    desk.world.tell("epoch")
    desk.page.wait_for_selector("#judgement:not([hidden])", state="attached")
    desk.go("Compare")
    desk.hand.press("#blind", "#play-output")
    desk.hand.press("#play-output", "#player-toggle.playing")
    for number in range(1, JUDGED + 1):
        # A, and then B, play by themselves.
        desk.hand.waits(f"{HEARD} === 'reference' && {POSITION} > 0.2")
        desk.hand.press("#prefer-a", "#blind-sum")
        if number < JUDGED:
            desk.hand.press("#next-sentence", "#player-toggle.playing")
    desk.hand.waits(
        f"document.getElementById('blind-sum').textContent.startsWith('Judged blind: {JUDGED} of')"
    )


def serve(desk: Desk) -> None:
    desk.page.evaluate("location.hash = '#/speak'")
    desk.go("Compare")
    desk.hand.press("[aria-label='Serve epoch 2']", "tr[data-candidate=epoch_2] .serving")
    desk.hand.waits("document.getElementById('served').textContent.startsWith('Serving epoch 2')")


def make_book(desk: Desk) -> None:
    text = desk.folder / "book.txt"
    text.write_text("The ship left the port.")
    desk.go("Books")
    desk.hand.choose_file("#book-file", text)
    desk.hand.sees("#book-title", "#book-file")
    desk.hand.press("#book-read", "#book-info")
    desk.hand.sees("#book-files button", "#book-read")


# With the number of presses.
TASKS: dict[Callable[[Desk], None], int] = {
    speak: 2,
    compare_takes: 7,
    save_while_speaking: 3,
    upload: 3,
    record: 5,
    read_and_train: 17,
    hear_while_training: 2,
    judge_blind: 14,
    serve: 2,
    make_book: 3,
}


@pytest.mark.parametrize("name", ["phone", "desk"])
def test_ten_tasks_take_few_presses_and_show_their_results(world, address, chromium, tmp_path, name):
    said = tmp_path / "said.wav"
    said.write_bytes(wav(np.concatenate((speech(4.0, 150), np.zeros(30 * RATE, np.float32)))))
    world.epochs, world.records, world.training = [], [], False
    world.acts, world.sentences = FakeStudio(world, READ), tuple(f"Sentence {n}." for n in range(JUDGED))
    faults = []
    with browser_hearing(chromium, said) as browser:
        size = PHONE if name == "phone" else DESKTOP
        context = browser.new_context(viewport=size, has_touch=name == "phone")
        context.set_default_timeout(PATIENCE_MILLISECONDS)
        page = context.new_page()
        page.goto(address)
        says(page, "live", "Live")
        for act, presses in TASKS.items():
            desk = Desk(page, Hand(page, name == "phone"), world, tmp_path)
            act(desk)
            hand = desk.hand
            print(name, act.__name__, hand.presses, "presses, scrolls to", hand.scrolls, flush=True)
            faults += [f"{act.__name__}: {one} is not seen" for one in hand.unseen]
            if hand.presses > presses:
                faults.append(f"{act.__name__}: {hand.presses} presses")
    assert faults == []
