"""Uploads that FFmpeg reads: m4a, aac and webm, encoded here with `av`, under the same limits."""

import importlib.util
import io
import subprocess
import sys

import av
import numpy as np
import pytest
import soundfile

from api.voices.decoding import decode, decode_mono
from api.voices.recordings import container_of
from machine import commands
from tests.api.heard import refusal
from tests.api.sounds import KINDS, file_of, made, muxed, speech, upload, write

RATE = 48_000


def likeness(decoded_sound: np.ndarray, sound: np.ndarray) -> float:
    """The highest correlation over the shifts that a codec's priming causes."""
    length = len(sound) - 4_096
    return max(
        float(np.corrcoef(decoded_sound[shift : shift + length], sound[:length])[0, 1])
        for shift in range(0, min(2_200, len(decoded_sound) - length), 8)
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("channels", [1, 2])
def test_it_is_whole_and_the_same_sound(kind, channels):
    sound, data = speech(2.0, RATE), made(kind, speech(2.0, RATE), channels=channels)
    wav, quality = decode(data, 60.0, container_of(data))
    decoded_sound, rate = soundfile.read(io.BytesIO(wav))
    assert rate == RATE and 0 <= len(decoded_sound) - len(sound) <= KINDS[kind][2]
    assert likeness(decoded_sound, sound) > 0.99
    # At its original level: the mean of the channels, not the sum.
    assert np.sqrt((decoded_sound**2).mean()) == pytest.approx(np.sqrt((sound**2).mean()), rel=0.05)
    assert quality["word"] == "usable"


def test_it_becomes_a_voice(service):
    for kind in KINDS:
        answer = upload(service, made(kind, speech(2.0, RATE)), name=kind)
        assert answer.status_code == 201, (kind, answer.text)
        voice = answer.json()
        assert voice["duration_seconds"] == pytest.approx(2.0, abs=0.05)
        assert service.say("hello", voice=voice["id"]).status_code == 200


def test_a_browsers_recording_says_no_length_and_is_read():
    """As MediaRecorder writes it: a webm writer that cannot seek back to its header."""

    class Pipe(io.RawIOBase):
        written = b""

        def writable(self):
            return True

        def write(self, data):  # type: ignore[override]
            self.written += bytes(data)
            return len(data)

        def getvalue(self):
            return self.written

    data = muxed("webm", "libopus", speech(2.0, RATE), out=Pipe(), live="1")
    with av.open(io.BytesIO(data), "r") as written:
        assert written.duration is None
    wav, _ = decode(data, 60.0, container_of(data))
    assert soundfile.info(io.BytesIO(wav)).duration == pytest.approx(2.0, abs=0.05)


@pytest.mark.parametrize(
    ("recording", "words"),
    [
        (lambda: b"\0\0\0\x18ftypM4A \0\0\0\0" + bytes(200), "cannot be decoded"),
        (lambda: b"\x1a\x45\xdf\xa3" + bytes(200), "cannot be decoded"),
        (lambda: b"\xff\xf1" + bytes(200), "track is empty"),
        (lambda: made("m4a", speech())[:-3_000], "cannot be decoded"),
        (lambda: made("webm", speech()).replace(b"Head\1", b"Head\x20"), "Not yet implemented"),
        (lambda: made("webm", speech()).replace(b"A_OPUS", b"A_XYZQ"), "no decoder"),
        (lambda: made("m4a", speech(0.5, RATE)), "s long. A voice needs"),
        (lambda: made("m4a", np.zeros(2 * RATE)), "silent"),
        (lambda: made("m4a", speech(70.0, 8_000), 8_000), "longer than 60 s"),
        (lambda: made("aac", speech(62.0, 8_000), 8_000), "longer than 60 s"),
        (lambda: made("webm", 0.3 * np.sin(np.arange(2 * RATE) / 10)), "steady tone or noise"),
    ],
    ids=[
        "mov",
        "matroska",
        "adts",
        "cut off",
        "unknown version",
        "unknown codec",
        "short",
        "silent",
        "long",
        "long, untold",
        "tone",
    ],
)
def test_what_is_no_usable_recording_is_refused(recording, words):
    data = recording()
    container = container_of(data)
    assert container
    with pytest.raises(ValueError, match=words):
        decode(data, 60.0, container)


def test_a_film_gives_its_sound_and_a_silent_film_is_refused():
    def film(with_sound):
        out = io.BytesIO()
        with av.open(out, "w", format="mp4") as file:
            pictures = file.add_stream("mpeg4", rate=25)
            pictures.width, pictures.height, pictures.pix_fmt = 64, 64, "yuv420p"
            stream = file.add_stream("aac", rate=RATE, layout="mono") if with_sound else None
            for _ in range(50):
                picture = av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8))
                file.mux(pictures.encode(picture))
            file.mux(pictures.encode(None))
            if stream:
                write(file, stream, speech(2.0, RATE))
        return out.getvalue()

    decoded_sound, rate = decode_mono(film(True), 60.0, "mov")
    assert rate == RATE and likeness(decoded_sound, speech(2.0, RATE)) > 0.99
    with pytest.raises(ValueError, match="no audio track"):
        decode_mono(film(False), 60.0, "mov")


def test_a_codec_that_is_not_named_is_not_decoded():
    data = muxed("matroska", "ac3", speech(2.0, RATE))
    with pytest.raises(ValueError, match="ac3"):
        decode_mono(data, 60.0, "matroska")


def test_a_playlist_opens_nothing(service, tmp_path):
    """FFmpeg would follow it to files of this machine and to other hosts."""
    (tmp_path / "secret.aac").write_bytes(made("aac", speech(2.0, RATE)))
    for head in (b"#EXTM3U\n", b"ffconcat version 1.0\nfile "):
        data = head + b"#EXTINF:2,\n" * (head[0] == 35) + str(tmp_path / "secret.aac").encode()
        assert container_of(data) is None
        answer = upload(service, data + b"\n")
        assert answer.status_code == 422 and "not a WAV" in answer.json()["detail"]
        for container in ("mov", "matroska", "aac"):
            with pytest.raises(ValueError, match=r"cannot be decoded|empty"):
                decode_mono(data, 60.0, container)


def test_nothing_is_imported_behind_the_limits():
    """Under the limits, a library that could not be mapped would end the child."""
    program = (
        "import sys; from api.voices import recordings_child as child; child.import_all(True); "
        "from api.voices.decoding import decode; "
        "before = set(sys.modules); decode(sys.stdin.buffer.read(), 60.0, sys.argv[1]); "
        "print(sorted(set(sys.modules) - before))"
    )
    for kind in KINDS:
        data = made(kind, speech(2.0, RATE))
        done = subprocess.run(
            [sys.executable, "-c", program, str(container_of(data))],
            input=data,
            capture_output=True,
            check=False,
        )
        assert done.stdout.decode().strip() == "[]", done


def test_without_the_decoder_it_says_what_to_type(service, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "av" else find(name, *more)
    )
    for kind in ("m4a", "aac", "webm"):
        answer = upload(service, made(kind, speech(2.0, RATE)))
        assert refusal(answer) == (422, "unsupported", "file")
        assert commands.install_extra("aac") in answer.json()["detail"]
    assert upload(service, file_of(speech())).status_code == 201
