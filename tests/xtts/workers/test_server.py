"""The answers of the speaking child when a voice cannot be opened: other speech must not suffer."""

import errno
import gc
import time
import weakref
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from xtts.inference.compute_config import ComputeConfig
from xtts.text.errors import TextError
from xtts.text.tokenizer import Piece, TokenizerSpec
from xtts.workers.server import Frame, SpeechServer


class Written:
    """Accepts every text, in this process."""

    def start(self) -> None:
        """Does nothing."""

    def open(self, tokenizer: TokenizerSpec) -> None:
        """Does nothing."""

    def read(self, tokenizer: TokenizerSpec, text: str, language: str, *, plain: bool = False) -> list[Piece]:
        return [Piece("", [1])]


ASK = {"text": "…", "language": "en"}
OPEN = {"do": "open", "id": "a1", "key": "v1", "voice": {"name": "demo"}}


def answer(ensemble: SpeechServer) -> dict[str, Any]:
    list(ensemble.take(OPEN))
    while ensemble.waiting:
        for header, _ in ensemble.step():
            return header
        time.sleep(0.01)
    raise AssertionError("no answer")


def test_a_file_that_goes_while_it_is_opened_is_a_refusal(monkeypatch):
    """The trainer prunes an epoch between the check and the reading."""

    def gone(*_: object) -> None:
        path = Path("/runs/checkpoints/checkpoint_epoch_1.pt")
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))

    monkeypatch.setattr("xtts.voices.loading.load_voice", gone)
    header = answer(SpeechServer(ComputeConfig(), 1, text_worker=Written()))
    assert (header["say"], header["reason_code"]) == ("failed", "refused")
    assert header["reason"] == "checkpoint_epoch_1.pt cannot be read (No such file or directory)."


def test_the_voices_asked_for_last_are_kept_and_nobodys_beginning(tmp_path):
    """It keeps sixty-four voices, and nothing of cancelled or refused requests."""
    ensemble = SpeechServer(ComputeConfig(), 1, text_worker=Written())
    ensemble._open_voices["v"], ensemble._batchers["v"] = Mute(), Refusing()

    def speak(name: str) -> None:
        recording = tmp_path / name
        recording.touch()
        asked = {"id": name, "key": "v", "recording": str(recording), "ask": ASK}
        list(ensemble.take({"do": "speak", **asked}))
        while ensemble.waiting:
            list(ensemble.step())
            time.sleep(0.001)

    for number in range(64):
        speak(f"{number}.wav")
    speak("0.wav")  # a known voice moves to the end
    speak("64.wav")
    assert [Path(path).name for _, path in ensemble._cached_voices] == [
        *(f"{number}.wav" for number in range(2, 64)),
        "0.wav",
        "64.wav",
    ]
    assert ensemble._started_at == {}


class Mute:
    """An open voice that returns names in place of voices."""

    own_voice = None
    folder = Path()
    texts = TokenizerSpec(Path(), "coqui")

    def voice_of(self, path: Path, _kept: object) -> str:
        return path.name


class Refusing:
    """A batcher that refuses every request."""

    busy = False

    def enter(self, *_: object) -> None:
        raise TextError("nothing to speak")

    def leave(self, _name: str) -> bool:
        return False


class Failing(Refusing):
    """A batcher that fails when a request enters, or when it continues."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.left: list[str] = []

    def enter(self, *_: object) -> None:
        raise self.error

    def begin_next_piece(self, _name: str) -> bool:
        raise self.error

    def leave(self, name: str) -> bool:
        self.left.append(name)
        return True


def messages(frames: Iterable[Frame]) -> list[dict[str, Any]]:
    return [header for header, _ in frames]


@pytest.mark.parametrize("begins", [True, False], ids=["enters", "goes on"])
def test_an_error_that_nobody_expected_is_an_answer_to_one_request(begins):
    """Unknown ids, no piece at all: whatever a request contains, the others continue."""
    server, batcher = (SpeechServer(ComputeConfig(), 1, text_worker=Written()), Failing(IndexError("secret")))
    server._batchers["v"] = batcher  # type: ignore[assignment]
    server._started_at["s1"] = server._paused_at["s1"] = 0.0
    if begins:
        asked = {"id": "s1", "key": "v", "ask": ASK}
        (header,) = messages(server._enter(asked, Mute()))  # type: ignore[arg-type]
    else:
        (header,) = messages(server.take({"do": "go_on", "id": "s1"}))
        assert batcher.left == ["s1"] and server._started_at == {}
    assert (header["say"], header["id"], header["reason_code"]) == ("failed", "s1", "internal")
    assert "IndexError in test_server.py:" in header["reason"] and "secret" not in header["reason"]


class Ready(Mute):
    """An open voice whose backend has fewer slots than requested."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def prepare(self) -> None:
        """Does nothing."""

    def summary(self) -> dict[str, Any]:
        return {"licence": "free"}

    def guard(self, request: Any) -> None:
        """Does nothing."""

    def backend(self, count: int, *, beside_another: bool) -> Any:
        if self.error is not None:
            raise self.error
        return SimpleNamespace(num_slots=count - 1, prepare=lambda: None)


def opened(monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> SpeechServer:
    """A server with one voice that can open a second one, whose batcher may fail."""
    monkeypatch.setattr("xtts.voices.loading.load_voice", lambda *_: Ready(error))
    server = SpeechServer(ComputeConfig(), 16, text_worker=Written())
    server._open_voices["v"], server._batchers["v"] = Mute(), Refusing()
    return server


def test_an_opened_voice_tells_how_many_may_speak(monkeypatch):
    header = answer(opened(monkeypatch))
    assert (header["say"], header["slots"]) == ("opened", 15)


def test_a_voice_that_a_gpu_has_no_memory_for_is_refused_and_those_that_speak_go_on(monkeypatch):
    """The second voice of a promotion, on a card with 8 GB."""
    server = opened(monkeypatch, torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"))
    header = answer(server)
    assert (header["say"], header["reason_code"]) == ("failed", "out_of_memory")
    assert list(server._batchers) == ["v"] and list(server.step()) == []


def test_memory_is_freed_after_what_had_no_room_is_let_go(monkeypatch):
    half_loaded, left = list[weakref.ref[Mute]](), list[bool]()

    def load(*_: Any) -> None:
        tensors = Mute()
        half_loaded.append(weakref.ref(tensors))
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")

    def free(_device: Any) -> None:
        left.append(half_loaded[0]() is not None)

    server = opened(monkeypatch)
    monkeypatch.setattr("xtts.voices.loading.load_voice", load)
    monkeypatch.setattr("xtts.workers.server.recovery.free_after_fault", free)
    gc.disable()
    try:
        assert answer(server)["reason_code"] == "out_of_memory"
    finally:
        gc.enable()
    assert left == [False]


def test_a_fault_of_the_device_or_of_ours_ends_the_child(monkeypatch):
    """Both while a voice is opened and at a request."""
    dead = torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
    for error in (dead, KeyError("a fault of ours")):
        with pytest.raises(type(error)):
            answer(opened(monkeypatch, error))
    server = SpeechServer(ComputeConfig(), 1, text_worker=Written())
    server._batchers["v"] = Failing(RuntimeError("cuFFT error: CUFFT_INVALID_SIZE"))
    with pytest.raises(RuntimeError, match="cuFFT"):
        list(server._enter({"id": "s1", "key": "v", "ask": ASK}, Mute()))
