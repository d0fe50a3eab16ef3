"""`python -m xtts speak`, from the command line to the WAV."""

import io
import re
import sys
from importlib import metadata
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
import torch

import xtts
from machine import commands
from machine.devices import selection
from tests.api.decoding import decoded
from tests.datasets import a_sound
from tests.machines import machine
from tests.marked import comment
from tests.models import tiny_voice
from tests.xtts.voices.adapters import adapter_of
from xtts import encoding
from xtts.__main__ import main
from xtts.download.xtts_v2 import FilesError
from xtts.inference.alignment.guard import Ending
from xtts.inference.alignment.guarded_piece import SpokenPiece
from xtts.marks import Mark
from xtts.text.tokenizer import Tokenizer
from xtts.verbs.speak import _endings_note
from xtts.voices import loading, voice_files
from xtts.voices.base_models import BundleError


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("recording") / "voice.wav"
    soundfile.write(path, a_sound(2.0, 22_050), 22_050)
    return path


def speak(base, *arguments: object) -> int:
    return main(["speak", "--voice", str(base), *map(str, arguments)])


def test_a_text_becomes_a_wav(base_folder, recording, tmp_path, capsys):
    out = tmp_path / "said.wav"
    assert speak(base_folder, "--reference", recording, "--text", "One.", "--out", out) == 0
    info = soundfile.info(out)
    assert (info.samplerate, info.subtype, info.channels) == (24_000, "PCM_16", 1)
    assert comment(out) == Mark(recording.stem).text
    assert f"{out}: {info.duration:.2f} s" in capsys.readouterr().out


def test_the_text_needs_no_option(base_folder, recording, tmp_path, capsys):
    out = tmp_path / "said.wav"
    assert speak(base_folder, "One.", "--reference", recording, "--out", out) == 0
    assert soundfile.info(out).frames > 0
    with pytest.raises(SystemExit):
        speak(base_folder, "One.", "--text", "Two.", "--out", out)
    assert "not allowed with" in capsys.readouterr().err


class Stream(io.TextIOWrapper):
    """A fake stdin or stdout, as a pipe or a terminal."""

    def __init__(self, content: bytes = b"", *, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(content), encoding="utf-8")
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize("words", [(), ("-",), ("--text", "-")])
def test_a_text_comes_from_stdin(base_folder, monkeypatch, capsys, words):
    monkeypatch.setattr(sys, "stdin", Stream("\ufeffOne,\ntwo.\n".encode()))
    assert speak(base_folder, *words, "--show-text") == 0
    assert capsys.readouterr().out.split()[-2:] == ["one,", "two."]


# Windows writes UTF-16 when a text is piped or redirected.
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
def test_a_text_may_be_in_utf_16(base_folder, tmp_path, monkeypatch, capsys, encoding):
    content = "\ufeffOne,\r\ntwo.\r\n".encode(encoding)
    monkeypatch.setattr(sys, "stdin", Stream(content))
    assert speak(base_folder, "--show-text") == 0
    (tmp_path / "lines.txt").write_bytes(content)
    assert speak(base_folder, "--lines", tmp_path / "lines.txt", "--show-text") == 0
    assert capsys.readouterr().out.split().count("two.") == 2


def test_a_text_behind_the_recordings_is_told(base_folder, recording, capsys):
    assert speak(base_folder, "--reference", recording, "One.") == 2
    assert "If 'One.' is the text, write it before --reference" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("stdin", "told"),
    [
        (Stream(terminal=True), "speak needs a text"),
        (Stream(b""), "The text on stdin is empty. Pipe a text into speak"),
        (Stream(b" \n"), "The text on stdin is empty. Pipe a text into speak"),
        (Stream(b"\xff"), "is not UTF-8"),
        (Stream(b"\xff\xfea"), "is not UTF-16"),
        (None, "speak needs a text"),
    ],
)
def test_without_a_text_it_says_so(base_folder, monkeypatch, capsys, stdin, told):
    monkeypatch.setattr(sys, "stdin", stdin)
    assert speak(base_folder, "--show-text") == 2
    assert told in capsys.readouterr().err


def test_out_minus_is_a_wav_on_stdout_and_words_go_to_stderr(
    base_folder, recording, tmp_path, monkeypatch, capsys, spoken
):
    monkeypatch.chdir(tmp_path)
    out = Stream()
    monkeypatch.setattr(sys, "stdout", out)
    asked = ("One.", "--reference", recording, "--device", "auto", "--show-text", "--out", "-")
    assert speak(base_folder, *asked) == 0
    written = out.buffer.getvalue()
    assert comment(written) == Mark(recording.stem).text
    sound, _ = soundfile.read(io.BytesIO(written), dtype="int16")
    assert np.array_equal(sound, spoken)
    told = capsys.readouterr().err
    assert "stdout: " in told and "Device: " in told and not list(tmp_path.iterdir())
    monkeypatch.setattr(sys, "stdout", Stream(terminal=True))
    assert speak(base_folder, *asked) == 2
    assert "which is a terminal" in capsys.readouterr().err
    assert speak(base_folder, "--lines", "lines.txt", "--out", "-") == 2
    assert "--out names a folder" in capsys.readouterr().err


def test_without_out_it_writes_a_new_file_and_names_it(base_folder, recording, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("speech.wav", "speech-2.wav", "speech-3.wav"):
        assert speak(base_folder, "One.", "--reference", recording) == 0
        assert capsys.readouterr().out.startswith(f"{name}: ") and Path(name).is_file()
    assert speak(base_folder, "--lines", "lines.txt") == 2
    assert "--lines needs --out DIR" in capsys.readouterr().err


def test_speed_and_temperature_have_the_limits_of_http(base_folder, recording, tmp_path, capsys):
    asked = ("One.", "--reference", recording, "--guard", "off", "--temperature", "0")
    for number, speed in enumerate((1, 2)):
        assert speak(base_folder, *asked, "--speed", speed, "--to", tmp_path / f"{number}.wav") == 0
    slow, fast = (soundfile.info(tmp_path / f"{number}.wav").duration for number in (0, 1))
    assert fast == pytest.approx(slow / 2, rel=0.1)
    for flag, value, told in (
        ("--speed", "4.1", "speed is 4.1; allowed: a number from 0.25 to 4"),
        ("--temperature", "nan", "temperature is nan; allowed: a number from 0 to 2"),
    ):
        assert speak(base_folder, "One.", "--out", tmp_path / "x.wav", flag, value) == 2
        assert told in capsys.readouterr().err


def test_help_names_every_kind_of_voice(capsys):
    with pytest.raises(SystemExit):
        main(["speak", "--help"])
    told = capsys.readouterr().out
    for kind in ("demo", "xtts_v2", ".sotaque", "exported", "imported", "adapter", "checkpoint"):
        assert kind in told and kind in str(xtts.load_voice.__doc__), kind


def test_without_arguments_there_is_help_and_the_version_is_told(capsys):
    assert main([]) == 2
    assert "speak a text" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"sotaque {metadata.version('sotaque')}\n"


@pytest.mark.parametrize("seconds", ["x", "0", "-1", "nan"])
def test_a_wrong_interval_is_refused_in_words(seconds, capsys):
    with pytest.raises(SystemExit):
        main(["monitor", f"--interval={seconds}"])
    assert f"'{seconds}' is not allowed; use 0.1 seconds or more" in capsys.readouterr().err


FORMATS = {
    "mp3": "MP3",
    "flac": "FLAC",
    "FLAC": "FLAC",
    "opus": "OGG",
    "ogg": "OGG",
    "aac": "aac",
    "m4a": "mov",
}


@pytest.fixture(scope="module")
def spoken(base_folder, recording, tmp_path_factory) -> np.ndarray:
    """The samples of the WAV."""
    out = tmp_path_factory.mktemp("spoken") / "said.wav"
    assert speak(base_folder, "--reference", recording, "--text", "One.", "--out", out) == 0
    return soundfile.read(out, dtype="int16")[0]


@pytest.mark.parametrize(
    "ending",
    [pytest.param(ending, marks=() if ending in ("mp3", "FLAC") else pytest.mark.slow) for ending in FORMATS],
)
def test_the_ending_of_the_file_says_its_format(base_folder, recording, tmp_path, spoken, ending):
    out = tmp_path / f"said.{ending}"
    assert speak(base_folder, "--reference", recording, "--text", "One.", "--out", out) == 0
    if ending in ("aac", "m4a"):
        with av.open(str(out)) as file:
            assert FORMATS[ending] in file.format.name
        samples = decoded(out.read_bytes())
    else:
        assert soundfile.info(out).format == FORMATS[ending]
        samples = soundfile.read(out, dtype="float32")[0]
    assert 0 <= len(samples) - len(spoken) <= 0.1 * 24_000
    if ending.lower() == "flac":
        assert np.array_equal(soundfile.read(out, dtype="int16")[0], spoken)


@pytest.mark.parametrize("name", ["said.xyz", "said", "said.mp4", "said.wav.bak"])
def test_an_ending_that_names_no_format_is_refused_with_those_that_do(
    base_folder, recording, tmp_path, capsys, name
):
    out = tmp_path / name
    assert speak(base_folder, "--reference", recording, "--text", "One.", "--out", out) == 2
    told = capsys.readouterr().err
    assert "Use one of these: .wav, .mp3, .flac, .opus, .ogg, .m4a, .aac." in told
    assert str(out) in told and not out.exists()


def test_without_an_encoder_its_endings_are_not_named(base_folder, recording, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(encoding, "av_is_installed", lambda: False)
    out = tmp_path / "said.m4a"
    assert speak(base_folder, "--reference", recording, "--text", "One.", "--out", out) == 2
    told = capsys.readouterr().err
    assert commands.install_extra("aac") in told and told.endswith(
        "endings: .wav, .mp3, .flac, .opus, .ogg.\n"
    )


def test_references_are_named_together_in_turn_or_by_their_folder(
    base_folder, recording, tmp_path, monkeypatch
):
    other = tmp_path / "2.wav"
    soundfile.write(other, a_sound(2.0, 22_050, seed=1), 22_050)
    asked = []
    monkeypatch.setattr(voice_files, "reference_of", lambda named: asked.append(named) or recording)
    rest = ("--text", "One.", "--out", tmp_path / "said.wav")
    for references in (
        ("--reference", recording, other),
        ("--reference", recording, "--reference", other),
        ("--reference", tmp_path),
    ):
        assert speak(base_folder, *references, *rest) == 0
    assert asked == [[recording, other], [recording, other], [tmp_path]]


def test_a_folder_of_recordings_speaks_and_one_without_is_refused(base_folder, tmp_path, capsys):
    out = tmp_path / "said.wav"
    asked = ("--reference", tmp_path, "--text", "One.", "--out", out)
    assert speak(base_folder, *asked) == 2
    assert "which contains no recording" in capsys.readouterr().err
    for number in range(2):
        path = tmp_path / f"{number}.wav"
        soundfile.write(path, a_sound(2.0, 22_050, seed=number), 22_050)
    assert speak(base_folder, *asked) == 0
    assert soundfile.info(out).frames > 0


def test_auto_speaks_on_the_cpu_without_a_gpu_and_another_device_is_refused(
    base_folder, recording, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(selection, "look_at_machine", lambda: machine())
    out = tmp_path / "said.wav"
    asked = ("--reference", recording, "--text", "One.", "--out", out, "--device")
    assert speak(base_folder, *asked, "auto") == 0
    assert "Device: cpu (no GPU on this machine)" in capsys.readouterr().out
    for device in ("gpu:1", "cuda:1"):
        assert speak(base_folder, *asked, device) == 2
        assert "DEVICE=cuda:1, but this machine has no GPU. Set" in capsys.readouterr().err
    assert speak(base_folder, *asked, "tpu") == 2
    assert "'tpu'" in (refusal := capsys.readouterr().err) and "cuda:N" in refusal


def test_a_voice_is_found_once_and_a_text_is_split_once(base_folder, recording, tmp_path, monkeypatch):
    """Finding a voice hashes its weights, 1.9 GB for XTTS-v2."""
    calls = []
    for place, name in ((voice_files, "_files_of_folder"), (Tokenizer, "split")):
        real = getattr(place, name)
        monkeypatch.setattr(
            place,
            name,
            lambda *given, name=name, real=real, **more: calls.append(name) or real(*given, **more),
        )
    out = tmp_path / "said.wav"
    asked = ("--reference", recording, "--text", "One.", "--show-text", "--out", out)
    assert speak(base_folder, *asked, "--guard", "off") == 0
    assert calls == ["_files_of_folder", "split"]


def test_a_file_of_lines_becomes_numbered_wavs(base_folder, recording, tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("One.\n\nTwo.\n", encoding="utf-8")
    out = tmp_path / "said"
    assert speak(base_folder, "--reference", recording, "--lines", lines, "--out", out) == 0
    assert sorted(path.name for path in out.iterdir()) == ["01.wav", "02.wav"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--text", "One."), "--reference FILE.wav"),
        (("--text", " \u200b "), "nothing to speak"),
        (("--text", "One.", "--language", "xx"), "not one of this model's"),
        (("--lines", "missing.txt"), "missing.txt"),
        (("--text", "9" * 307), "is a number of 307 digits"),
        (("--text", "0" * 4096), "is a number of 4,096 digits"),
        (("--text", "hello \u4f60\u597d"), "This voice cannot say '\u4f60\u597d'"),
        (("--text", "One.", "--seed", "-1"), "seed is -1; allowed: "),
        (("--text", "One.", "--base", "x" * 300), "base is "),
    ],
)
def test_what_cannot_be_spoken_is_told(base_folder, recording, tmp_path, capsys, arguments, told):
    reference = () if arguments == ("--text", "One.") else ("--reference", recording)
    assert speak(base_folder, *reference, *arguments, "--out", tmp_path / "x.wav") == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "x.wav").exists()


@pytest.mark.parametrize(
    ("pieces", "told"),
    [
        ("good good", ""),
        ("good again", "; 1 of 2 pieces were spoken again"),
        ("again again good", "; 2 of 3 pieces were spoken again"),
        ("good trimmed", "; 1 of 2 pieces were spoken again"),
        ("again faulty", "; 1 of 2 pieces ended badly: repeated (It said one twice.; 3 attempts)"),
        (
            "faulty faulty",
            "; 2 of 2 pieces ended badly: "
            "repeated (It said one twice.; 3 attempts), repeated (It said one twice.; 3 attempts)",
        ),
    ],
)
def test_the_note_counts_faulty_pieces_and_without_any_the_ones_spoken_again(pieces, told):
    repeated = (Ending.REPEATED, "It said one twice.", 3)
    kinds = {
        "good": (Ending.GOOD, "", 1, False),
        "again": (Ending.GOOD, "", 2, False),
        "trimmed": (*repeated, True),
        "faulty": (*repeated, False),
    }
    spoken = [SpokenPiece([1], *kinds[kind], True, 24, 1.0) for kind in pieces.split()]
    assert _endings_note(spoken) == told


@pytest.mark.parametrize("how", [(), ("--show-text",)])
def test_every_refused_line_is_named_by_its_number(base_folder, recording, tmp_path, capsys, how):
    lines, out = tmp_path / "lines.txt", tmp_path / "said"
    lines.write_text("One.\n\n\u4f60\u597d\nTwo.\n[voice:bob] Three.\n", encoding="utf-8")
    asked = ("--reference", recording, "--lines", lines, "--out", out, *how)
    assert speak(base_folder, *asked) == 2
    refused = capsys.readouterr().err.splitlines()
    assert f"--lines {lines}, line 3: This voice cannot say" in refused[-2]
    assert f"--lines {lines}, line 5: The text asks for the voice 'bob'" in refused[-1]
    assert not list(out.iterdir())


def test_marks_of_markdown_are_said_in_a_plain_text(base_folder, capsys):
    for asked, words in ((("--plain",), "hash one"), ((), "one")):
        assert speak(base_folder, "--text", "# One", "--show-text", *asked) == 0
        assert capsys.readouterr().out.splitlines()[1].split() == words.split()


@pytest.mark.parametrize(("seconds", "loudness", "told"), [(0.1, 0.3, "0.10 s"), (2, 0, "silent")])
def test_a_reference_without_a_voice_is_told(base_folder, tmp_path, capsys, seconds, loudness, told):
    path = tmp_path / "reference.wav"
    soundfile.write(path, loudness * a_sound(seconds, 22_050), 22_050)
    out = tmp_path / "x.wav"
    assert speak(base_folder, "--reference", path, "--text", "One.", "--out", out) == 2
    assert told in capsys.readouterr().err


@pytest.fixture
def asked(tmp_path, monkeypatch) -> dict[str, list[str]]:
    """The arguments of `speak` and `read`, in a folder without a `.env`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "book.txt").write_text("One two three. Four five six.")
    return {
        "speak": ["speak", "--text", "One.", "--out", "said.wav"],
        "read": ["read", "book.txt", "--to", "read", "--plan"],
    }


@pytest.mark.parametrize("of_env", [False, True])
@pytest.mark.parametrize("verb", ["speak", "read"])
def test_speaking_takes_the_settings_of_every_program(asked, tmp_path, monkeypatch, verb, of_env):
    given = {"SPEAK_PRECISION": "int8", "NUM_THREADS": "3", "GUARD": "off"}
    if of_env:
        (tmp_path / ".env").write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    else:
        for name, value in given.items():
            monkeypatch.setenv(name, value)
    opened, load_voice = [], loading.load_voice
    monkeypatch.setattr(
        loading, "load_voice", lambda files, where: opened.append(where) or load_voice(files, where)
    )
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    voice = ["--voice", str(tiny_voice(tmp_path / "voice"))]
    assert main([*asked[verb], *voice]) == 0
    assert main([*asked[verb], *voice, "--precision", "fp32"]) == 0
    used = [(config.precision, config.threads, config.guard) for config in opened]
    assert used == [("int8", 3, False), ("fp32", 3, False)]
    if verb == "speak":
        assert main([*asked[verb], *voice, "--guard", "on"]) == 0 and opened[-1].guard


@pytest.mark.parametrize("verb", ["speak", "read"])
def test_nothing_of_xtts_v2_is_loaded_before_its_licence_is_agreed_to(
    asked, tmp_path, monkeypatch, capsys, verb
):
    """Not even to look for its files in XTTS_V2_DIR."""
    voice = ["--voice", str(adapter_of("xtts_v2", tmp_path / "adapter"))]
    assert main([*asked[verb], *voice]) == 2
    assert "set COQUI_TOS_AGREED=1 if you agree" in capsys.readouterr().err
    (tmp_path / ".env").write_text("COQUI_TOS_AGREED=1\nXTTS_V2_DIR=elsewhere\n")
    assert main([*asked[verb], *voice]) == 2
    assert "elsewhere does not hold XTTS-v2" in capsys.readouterr().err
    # Python reads the agreement, but no folder, from the settings.
    with pytest.raises(FilesError, match="train/xtts_v2 does not hold XTTS-v2"):
        xtts.load_voice(voice[1])
    (tmp_path / ".env").unlink()
    with pytest.raises(BundleError, match="in Python, pass tos_agreed=True"):
        xtts.load_voice(voice[1])
    with pytest.raises(FilesError, match="train/xtts_v2 does not hold XTTS-v2"):
        xtts.load_voice(voice[1], tos_agreed=True)


def test_a_wrong_setting_is_told(asked, monkeypatch, capsys):
    monkeypatch.setenv("NUM_THREADS", "many")
    assert main(asked["speak"]) == 2
    assert "NUM_THREADS is 'many'" in capsys.readouterr().err


def test_of_several_takes_one_is_written_and_one_take_is_as_before(
    base_folder, recording, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("EVALUATE_RECOGNISER", "off")
    plain, single, two = (tmp_path / name for name in ("plain.wav", "one.wav", "two.wav"))
    asked = ("One.", "--reference", recording, "--out")
    assert speak(base_folder, *asked, two, "--takes", 2) == 0
    assert re.search(r"two\.wav: [\d.]+ s; take [12] of 2 \(voice -?\d\.\d\d\)", capsys.readouterr().out)
    # One take opens no judge.
    monkeypatch.setattr("xtts.inference.takes.speak_best", None)
    assert speak(base_folder, *asked, plain) == speak(base_folder, *asked, single, "--takes", 1) == 0
    assert plain.read_bytes() == single.read_bytes() and "; take" not in capsys.readouterr().out
    for count in (0, 17):
        assert speak(base_folder, *asked, single, "--takes", count) == 2
        assert f"--takes is {count}; allowed: a whole number from 1 to 16" in capsys.readouterr().err


def test_a_file_in_the_place_of_the_folder_for_lines_is_a_sentence(base_folder, tmp_path, capsys):
    lines, out = tmp_path / "lines.txt", tmp_path / "out.wav"
    lines.write_text("One.\nTwo.\n")
    out.touch()
    assert speak(base_folder, "--lines", lines, "--out", out) != 0
    assert f"{out} could not be written" in capsys.readouterr().err


def test_the_folder_of_the_word_times_is_made_before_anything_is_spoken(base_folder, recording, tmp_path):
    words = tmp_path / "subtitles" / "one.srt"
    speak(base_folder, "One.", "--reference", recording, "--out", tmp_path / "a.wav", "--words", words)
    assert words.parent.is_dir()
