"""A voice as one file: exported here, imported elsewhere, and the same sentence to the bit."""

import errno
import io
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

import xtts
from tests.train.test_run import Workshop
from tests.xtts.voices.decoders import shifted_decoder
from train.__main__ import main
from train.voice_file_export import figures
from xtts.__main__ import main as xtts_main
from xtts.voices import bundle, learned_decoder
from xtts.voices.base_models import DEMO
from xtts.voices.evaluation_file import (
    Candidate,
    Evaluation,
    JudgeDescription,
    JudgeFigure,
    Verdict,
    read_evaluation,
    write_evaluation,
)
from xtts.voices.files.checking import open_voice
from xtts.voices.run_folder import RunFolder
from xtts.voices.voice_files import VoiceSpec, find_voice

TEXT = "good day"
PREVIEW = ("--sample-text", "hi")


@pytest.fixture(scope="module")
def run(workshop: Workshop) -> RunFolder:
    run = workshop.run("filed", 1, LORA_RANK="4", LEARNING_RATE="1e-2")
    run.samples.mkdir(exist_ok=True)
    shutil.copy(DEMO / "reference.wav", run.samples / "epoch_1_reference.wav")
    return run


@pytest.fixture(autouse=True)
def as_trained(run: RunFolder) -> Iterator[None]:
    """The run without a verdict and without decoders, before and after each test."""
    yield
    for path in (run.evaluation_file, *run.checkpoints.glob("*decoder*")):
        path.unlink(missing_ok=True)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another clone: its working folder, VOICES_DIR and cache."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    return folder


def judged_best(run: RunFolder, base: Path, kind: str, epoch: int) -> None:
    sha256 = run.verified(1).sha256
    verdict = Verdict(kind, epoch, float(epoch), "It is the best.", "", False, sha256)
    told = Evaluation("now", "en", {"name": str(base), "sha256": "b"}, "", {}, {}, {}, [], verdict)
    write_evaluation(run.evaluation_file, told)


def exported(run: RunFolder, to: Path, *words: str) -> Path:
    named = ["--to", str(to), "--output-dir", str(run.folder)]
    assert main(["export", *named, *PREVIEW, *words]) == 0
    return to


def spoken(name: Path, base: Path) -> np.ndarray:
    return xtts.synthesize(xtts.load_voice(name, base=base), TEXT, seed=5)


def imported(file: Path, base: Path, *words: str) -> int:
    return xtts_main(["import", str(file), "--base", str(base), *words])


@pytest.mark.parametrize(
    ("kind", "reference", "decoder"),
    [
        ("latents", False, False),
        ("latents", True, True),
        ("adapter", True, True),
        ("adapter", False, False),
        ("weights", False, True),
    ],
)
def test_each_size_says_the_same_to_the_bit_elsewhere(
    workshop, run, elsewhere, tmp_path, kind, reference, decoder, capsys
):
    base, before, words = workshop.base, run.checkpoint_path(1), []
    if decoder:
        tensors = run.best_decoder if kind == "latents" else run.decoder_path(1)
        shifted_decoder(tensors, base, before, 1.5)
    if kind == "latents":
        judged_best(run, base, "base", 0)
        before = run.folder
        if decoder:
            record = learned_decoder.read(run.best_decoder)
            learned_decoder.write(run.best_decoder, replace(record, epoch=0, share=0.0))
    else:
        words = ["--checkpoint", str(before)] + ["--adapter"] * (kind == "adapter")
    words += [] if reference else ["--no-reference"]
    file = exported(run, tmp_path / f"{kind}.sotaque", *words)
    expected = spoken(before, base)
    if kind == "adapter":  # the checkpoint has it merged into the weights, which may round differently
        from_checkpoint, expected = expected, spoken(file, base)
        assert np.allclose(from_checkpoint, expected, atol=1e-4)
    assert imported(file, base) == 0
    told = capsys.readouterr().out
    folder = elsewhere / "voices" / "imported" / kind
    assert f"voices/imported/{kind}: {kind}, licence" in told
    assert (folder / "reference.wav").is_file() == reference
    assert (folder / bundle.LATENTS_FILE).is_file() and not (folder / "voice.safetensors").exists()
    # In weights, the decoder is a part of model.pth.
    assert (folder / bundle.DECODER_FILE).is_file() == (decoder and kind != "weights")
    own_base = None if kind == "weights" else base
    for name in (folder, file):
        assert np.array_equal(spoken(name, own_base), expected)
    assert len(expected) > 1_000


def test_an_imported_voice_is_packed_again_and_speaks_by_the_command(workshop, run, tmp_path, elsewhere):
    base, consent = str(workshop.base), tmp_path / "consent.json"
    consent.write_text('{"who": "Anna", "when": "now", "what": "all"}', encoding="utf-8")
    file = exported(run, tmp_path / "anna.sotaque", "--adapter", "--consent", str(consent))
    assert imported(file, workshop.base) == 0
    folder = elsewhere / "voices" / "imported" / "anna"
    again = exported(run, tmp_path / "again.sotaque", "--checkpoint", str(folder), "--base", base)
    sounds = []
    for voice in (file, again):
        out = tmp_path / f"{voice.stem}.wav"
        words = ["speak", TEXT, "--voice", str(voice), "--base", base, "--out", str(out)]
        assert xtts_main(words) == 0
        sounds.append(soundfile.read(out, dtype="int16")[0])  # the header names the voice
    assert np.array_equal(*sounds)
    with open_voice(file) as first, open_voice(again) as second:
        assert second.consent() == first.consent() is not None


def test_an_adapter_alone_differs_from_its_base_and_its_decoder_is_heard(workshop, run, tmp_path):
    """Else the test above could compare silence with silence."""
    base, checkpoint = workshop.base, run.checkpoint_path(1)
    judged_best(run, base, "base", 0)
    sounds = [spoken(run.folder, base)]
    run.evaluation_file.unlink()
    sounds.append(spoken(checkpoint, base))
    shifted_decoder(run.decoder_path(1), base, checkpoint, 1.5)
    sounds.append(spoken(checkpoint, base))
    for number, one in enumerate(sounds):
        assert not any(np.array_equal(one, other) for other in sounds[:number])


def test_the_file_says_what_it_is(workshop, run, tmp_path, caplog):
    judged_best(run, workshop.base, "epoch", 1)
    consent = tmp_path / "consent.json"
    words = {"who": "Anna", "when": "2026-11-28", "what": "any use"}
    consent.write_text(json.dumps(words), encoding="utf-8")
    file = exported(run, tmp_path / "Anna.sotaque", "--adapter", "--consent", str(consent))
    assert "an adapter of" in caplog.text and "xtts import" in caplog.text
    with open_voice(file) as voice:
        made, card = voice.manifest, voice.read("README.md").decode()
        told, metadata = voice.consent(), voice.metadata
        preview = voice.read("preview.wav")
        about = soundfile.info(io.BytesIO(preview))
    assert (made.kind, made.name, made.epoch, made.base.name) == ("adapter", "Anna", 1, workshop.base.name)
    assert str(workshop.base.parent) not in made.base.name + card + json.dumps(metadata)
    assert made.base.sha256 == run.verified(1).manifest.base["sha256"]
    assert made.data_sha256 == run.verified(1).manifest.fingerprint["data_sha256"]
    assert b"AI-generated speech; voice: Anna;" in preview
    assert about.samplerate == 24_000 and made.preview.language == "en"
    assert told is not None and vars(told) == words
    assert "nobody has verified it" in card and "- Who: Anna" in card
    assert card.startswith("---\nlicense: ") and "library_name: sotaque" in card
    assert metadata["base_sha256"] == made.base.sha256 and metadata["kind"] == "adapter"


def test_a_preview_can_be_spoken_again(workshop, run, tmp_path):
    file = exported(run, tmp_path / "anna.sotaque", "--adapter")
    with open_voice(file) as voice:
        preview = voice.manifest.preview
        heard = soundfile.read(voice.open("preview.wav"), dtype="int16")[0]
    loaded = xtts.load_voice(file, base=workshop.base)
    again = xtts.synthesize(loaded, preview.text, preview.language, seed=preview.seed)
    soundfile.write(tmp_path / "again.wav", again, 24_000, subtype="PCM_16")
    assert np.abs(soundfile.read(tmp_path / "again.wav", dtype="int16")[0] - heard).max() <= 1


def test_a_taken_name_gets_a_number_and_replace_replaces(workshop, run, tmp_path, elsewhere, capfd):
    file = exported(run, tmp_path / "anna.sotaque", "--adapter")
    voices = elsewhere / "voices"
    (voices / "adapters" / "ANNA").mkdir(parents=True)
    (voices / "abcdefabcdef.json").write_text('{"name": "anna-2"}', encoding="utf-8")
    assert imported(file, workshop.base) == 0
    assert imported(file, workshop.base) == 0
    assert imported(file, workshop.base, "--replace", "--name", "anna-3") == 0
    assert imported(file, workshop.base, "--replace") == 0  # none of this name was imported
    assert imported(file, workshop.base, "--name", "../x/.. y", "--json") == 0
    told = json.loads(capfd.readouterr().out.rpartition("\n{")[2].join(["{", ""]))
    assert told["name"] == "x .. y" and told["kind"] == "adapter"
    found = {path.name for path in (voices / "imported").iterdir() if path.name != ".lock"}
    assert found == {"anna-3", "anna-4", "anna-5", "x .. y"}


def test_an_earlier_file_stays_and_options_that_need_a_file_say_so(run, tmp_path, capfd):
    to = tmp_path / "anna.sotaque"
    to.write_bytes(b"kept")
    words = ["export", "--output-dir", str(run.folder), "--to"]
    assert main([*words, str(to), "--adapter"]) == 2 and "--force" in capfd.readouterr().err
    assert main([*words, str(to), "--onnx"]) == 2 and "--onnx" in capfd.readouterr().err
    assert main([*words, str(tmp_path / "anna"), "--no-reference"]) == 2
    assert "need a file" in capfd.readouterr().err
    consent = tmp_path / "consent.json"
    consent.write_text('{"who": ""}', encoding="utf-8")
    assert main([*words, str(to), "--force", "--adapter", "--consent", str(consent)]) == 2
    assert '"who": …, "when": …, "what": …' in capfd.readouterr().err
    assert to.read_bytes() == b"kept"
    assert {path.name for path in tmp_path.iterdir() if path.name != ".lock"} == {
        "anna.sotaque",
        "consent.json",
        "elsewhere",
    }


def test_the_figures_are_those_of_the_exported_weights(workshop, run):
    def candidate(kind: str, epoch: int, mean: float) -> Candidate:
        figure = JudgeFigure(mean, mean - 0.1, mean + 0.1, 8)
        return Candidate(
            kind, epoch, float(epoch), "", 0, 1, 0, {"voice": figure}, None, False, None, [], 1.0, "cpu", []
        )

    judged_best(run, workshop.base, "epoch", 1)
    judged = read_evaluation(run.evaluation_file)
    judges = {"voice": JudgeDescription("cosine", "higher", "")}
    found = [candidate("base", 0, 0.7), candidate("epoch", 1, 0.9)]
    write_evaluation(run.evaluation_file, replace(judged, judges=judges, candidates=found))
    told = figures(run, find_voice(VoiceSpec(str(run.checkpoint_path(1)))))
    assert told["candidate"] == "epoch 1" and told["failed"] == 1
    assert told["reason"] == "It is the best."
    assert told["judges"]["voice"] == {"best": 0.9, "low": 0.8, "high": 1.0, "base": 0.7, "unit": "cosine"}
    write_evaluation(run.evaluation_file, replace(judged, judges=judges, candidates=found[:1]))
    assert figures(run, find_voice(VoiceSpec(str(run.checkpoint_path(1))))) == {}


def test_a_name_that_is_too_long_for_the_file_is_shortened(run, tmp_path):
    path = exported(run, tmp_path / f"{'n' * 120}.sotaque")
    with open_voice(path) as voice:
        assert voice.manifest.name == "n" * 100


def test_a_folder_that_cannot_be_written_is_a_sentence(run, tmp_path, monkeypatch, capsys):
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    named = ["--to", str(tmp_path / "x.sotaque"), "--output-dir", str(run.folder)]
    assert main(["export", *named]) != 0
    assert "cannot be written (Permission denied)" in capsys.readouterr().err
