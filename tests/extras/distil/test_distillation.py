"""`python -m train distil` from start to end, with a tiny model: a good student becomes a voice."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import soundfile
import torch

from extras.distil import distillation, learning, lessons
from extras.distil.comparison import Comparison
from machine.devices.selection import Place
from machine.errors import SotaqueError
from machine.storage.checksums import sha256_of
from machine.storage.files import Written
from tests.datasets import make_dataset
from tests.installed import needs
from tests.models import ending_base
from tests.train.test_run import Workshop
from train.__main__ import main
from train.settings import TrainSettings
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.model.config import ModelConfig
from xtts.model.loading import read_tensors
from xtts.voices import bundle, formats, speakers
from xtts.voices.evaluation_file import read_evaluation, write_evaluation
from xtts.voices.loading import load_voice
from xtts.voices.run_folder import RunFolder
from xtts.voices.voice_files import VoiceSpec

ASKED = ("--epochs", "2", "--minutes", "0.2")


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """An epoch of a base that ends its sentences, trained on clips in one of two languages."""
    folder = tmp_path_factory.mktemp("distillation")
    found = Workshop(ending_base(folder / "base"), folder)
    found.dataset = make_dataset(folder / "long", clips=12, seconds=1.5)
    found.run("run", 1, SAMPLE_DEVICE="cpu", BLEND="off")
    return found


def distil(workshop: Workshop, to: Path, *more: str, name: str = "run") -> int:
    settings = workshop.arguments(name, SAMPLE_DEVICE="cpu", BLEND="off")
    return main(["distil", "--to", str(to), *(more or ASKED), *settings])


@pytest.mark.slow
def test_a_student_that_may_be_served_is_a_voice(workshop, tmp_path, monkeypatch, caplog):
    compared = list[Comparison]()
    monkeypatch.setattr(distillation, "rejection_reason", compared.append)
    to = tmp_path / "small"
    assert distil(workshop, to) == 0
    assert "keeps 1 of 2 layers" in caplog.text and str(to) in caplog.text
    assert bundle.verify(to).data_sha256
    config = ModelConfig.read(to)
    assert (config.gpt.layers, config.languages) == (1, ("en",))
    assert config.gpt.width == ModelConfig.read(workshop.base).gpt.width
    small, large = (read_tensors(folder / "model.pth") for folder in (to, workshop.base))
    assert "gpt.gpt.h.0.ln_1.weight" in small and "gpt.gpt.h.1.ln_1.weight" not in small
    assert torch.equal(
        small["hifigan_decoder.waveform_decoder.conv_pre.bias"],
        large["hifigan_decoder.waveform_decoder.conv_pre.bias"],
    )
    loaded = load_voice(VoiceSpec(str(to)), ComputeConfig(precision="fp32"))
    assert len(loaded.synthesize(SynthesisRequest("one two.", "en", max_codes=12))) > 1_000
    kept = workshop.folder / "run" / "distillation"
    (judged,) = json.loads((kept / "judged.json").read_text()).values()
    (comparison,) = compared
    teacher, student = comparison.teacher, comparison.student
    for who, found in (("teacher", teacher), ("student", student)):
        sentences = judged[who]["sentences"]
        assert len(sentences) == len(found.sentences) > 10
        assert [sentence["codes"] for sentence in sentences] == [
            sentence.codes for sentence in found.sentences
        ]
        seconds = soundfile.info(kept / who / "01.wav").duration
        assert seconds == pytest.approx(found.sentences[0].seconds, abs=0.05)
    assert [sentence.codes for sentence in teacher.sentences] != [
        sentence.codes for sentence in student.sentences
    ]
    # Kept work is not spoken or learned again, and a voice is not replaced without consent.
    assert distil(workshop, to) == 2
    monkeypatch.setattr(learning, "take_step", lambda *_: pytest.fail("learned again"))
    monkeypatch.setattr(lessons, "_speak", lambda *_: pytest.fail("said again"))
    assert distil(workshop, to, *ASKED, "--force") == 0
    again = read_tensors(to / "model.pth")
    assert all(torch.equal(small[name], again[name]) for name in small)


@pytest.mark.slow
def test_a_student_that_has_learned_what_judges_now_begins_anew(workshop, tmp_path, monkeypatch):
    keys = list[str]()

    def learn(*_: object, key: str, **__: object) -> None:
        keys.append(key)
        raise SotaqueError("Enough.")

    monkeypatch.setattr(learning, "learn", learn)
    own_texts, judging = tmp_path / "own.txt", tmp_path / "judging.txt"
    own_texts.write_text("One two three four.\nFive six seven eight.\n")
    asked = (*ASKED, "--texts", str(own_texts), f"--evaluate-texts={judging}")
    for text in ("Nine ten.", "Nine ten.", "One two three four."):
        judging.write_text(text + "\n")
        assert distil(workshop, tmp_path / "small", *asked) == 2
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.slow
def test_what_appears_where_it_is_to_stand_meanwhile_stays(workshop, tmp_path, monkeypatch, capsys):
    to = tmp_path / "small"

    def answer(*_: object) -> None:
        to.mkdir()
        (to / "mine.txt").write_text("mine")

    monkeypatch.setattr(distillation, "rejection_reason", answer)
    assert distil(workshop, to) == 2
    assert "mine.txt" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["small"]
    assert (to / "mine.txt").read_text() == "mine"


@pytest.mark.slow
@needs("onnx")
def test_its_voice_becomes_one_of_onnx_models(workshop, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(distillation, "rejection_reason", lambda comparison: None)
    small, to = tmp_path / "small", tmp_path / "onnx"
    assert distil(workshop, small) == 0
    assert main(["export", "--checkpoint", str(small), "--to", str(to), "--onnx", "fp32"]) == 0
    assert formats.format_of(to) is not None
    loaded = load_voice(VoiceSpec(str(to)), ComputeConfig(precision="fp32", backend="onnx"))
    assert len(loaded.synthesize(SynthesisRequest("one two.", "en", max_codes=12))) > 1_000
    assert main(["export", "--checkpoint", str(small), "--to", str(tmp_path / "copy")]) == 2
    assert "copy its folder" in capsys.readouterr().err


@pytest.mark.slow
def test_every_speaker_is_taught_and_judged_from_their_own_recording(workshop, tmp_path, monkeypatch):
    """The first speaker's is the recording that the voice opens with."""
    heard, compared = list[tuple[str, Path]](), list[str]()
    real = distillation.compare

    def judged(teacher, student, plan):
        compared.append(plan.reference.path.name)
        return real(teacher, student, plan)

    def spoken(source, *others):
        heard.extend((narrator.name, narrator.recording_path) for narrator in source.narrators)
        return lessons_spoken(source, *others)

    lessons_spoken = lessons.speak_lessons
    monkeypatch.setattr(distillation, "compare", judged)
    monkeypatch.setattr(lessons, "speak_lessons", spoken)
    monkeypatch.setattr(distillation, "rejection_reason", lambda comparison: None)
    several = Workshop(workshop.base, tmp_path)
    several.dataset = make_dataset(tmp_path / "two", clips=12, seconds=1.5)
    rows = (several.dataset / "metadata.csv").read_text().splitlines()
    named = [f"{row}|{'anna' if number % 2 else 'ben'}" for number, row in enumerate(rows)]
    table = [
        "file_name|text|speaker",
        *(f"{row.partition('|')[0]}.wav|{row.partition('|')[2]}" for row in named),
    ]
    (several.dataset / "metadata.csv").write_text("\n".join(table) + "\n")
    run = several.run("run", 1, SAMPLE_DEVICE="cpu", BLEND="off")
    recordings = speakers.read(run.folder)
    assert distil(several, tmp_path / "small") == 0
    first, second = recordings
    best = run.samples / "best_reference.wav"
    assert heard == [(first, best), (second, recordings[second])]
    assert compared == [best.name, recordings[second].name]
    judged_of = json.loads((run.folder / "distillation" / "judged.json").read_text())
    assert list(judged_of) == [first, second]
    assert list(speakers.read(tmp_path / "small")) == [first, second]
    # One bad speaker is enough to refuse.
    answers = iter([None, "It sounds less like the person than the large model."])
    monkeypatch.setattr(distillation, "rejection_reason", lambda comparison: next(answers))
    assert distil(several, tmp_path / "other") == 1
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_a_base_that_is_best_is_distilled_as_its_run_reads(workshop, tmp_path, monkeypatch):
    monkeypatch.setattr(distillation, "rejection_reason", lambda comparison: None)
    run, to = RunFolder(workshop.folder / "run"), tmp_path / "small"
    evaluation = read_evaluation(run.evaluation_file)
    of_base = replace(evaluation.verdict, kind="base", epoch=0, share=0.0, checkpoint_sha256="")
    content = run.evaluation_file.read_bytes()
    write_evaluation(run.evaluation_file, replace(evaluation, verdict=of_base))
    try:
        assert distil(workshop, to) == 0
    finally:
        run.evaluation_file.write_bytes(content)
    small, base = (read_tensors(folder / "model.pth") for folder in (to, workshop.base))
    frozen = "gpt.conditioning_perceiver.latents"
    assert torch.equal(small[frozen], base[frozen])


@pytest.mark.parametrize(("state", "reads"), [({}, "best.pt"), (None, "newest.pt")])
def test_the_lessons_are_spoken_by_the_best_epoch_whatever_came_after(monkeypatch, state, reads):
    """A base reads with the normaliser of the newest epoch."""
    newest = SimpleNamespace(checkpoint=Path("newest.pt"))
    monkeypatch.setattr(RunFolder, "newest_weights", lambda _: newest)
    for name in ("_plan", "_narrators"):
        monkeypatch.setattr(distillation, name, lambda *_: [])
    voice = SimpleNamespace(state=state, weights=Path("best.pt"), reference=Path("best.wav"))
    context = SimpleNamespace(device=Place("cpu", ""))
    work = distillation.Distillation(TrainSettings(), context, voice, Path())
    assert work.checkpoint == Path(reads)


def test_an_adapter_is_no_voice_for_onnx_models(tmp_path, capsys, base_folder):
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    for name in ("adapter.safetensors", "reference.wav"):
        (adapter / name).write_bytes(b"x")
    written = {path.name: Written(sha256_of(path), 1) for path in adapter.iterdir()}
    base = {"name": str(base_folder), "sha256": sha256_of(base_folder / "model.pth")}
    bundle.write(adapter, bundle.Bundle(written, base, "d", 1, "mine", "now", False, "adapter"))
    asked = ["export", "--checkpoint", str(adapter), "--to", str(tmp_path / "onnx"), "--onnx"]
    assert main(asked) == 2
    assert "is an adapter" in capsys.readouterr().err


@pytest.mark.slow
def test_a_sentence_that_nobody_can_say_is_named_before_anything_is_said(workshop, tmp_path, capsys):
    (tmp_path / "own.txt").write_text("One two.\n***\n")
    assert distil(workshop, tmp_path / "small", "--texts", str(tmp_path / "own.txt")) == 2
    assert "--texts, sentence 2" in capsys.readouterr().err


@pytest.mark.slow
def test_what_a_killed_one_has_left_goes(workshop, tmp_path, monkeypatch):
    monkeypatch.setattr(distillation, "rejection_reason", lambda comparison: "No.")
    left = workshop.folder / "run" / "distillation" / ".student.pt.1.sotaque-part"
    left.parent.mkdir(exist_ok=True)
    left.write_text("half")
    part = tmp_path / ".small.77.sotaque-part"
    replaced = tmp_path / ".small.77.old.sotaque-part"
    for folder in (part, replaced):
        folder.mkdir()
    assert distil(workshop, tmp_path / "small") == 1
    assert not left.exists() and not part.exists() and replaced.exists()


@pytest.mark.slow
def test_one_that_may_not_be_served_is_not_exported_and_the_reason_is_told(
    workshop, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(distillation, "rejection_reason", lambda comparison: "It is hard to understand.")
    assert distil(workshop, tmp_path / "small") == 1
    assert "not exported. It is hard to understand." in caplog.text
    assert not (tmp_path / "small").exists() and list(tmp_path.iterdir()) == []
    assert (workshop.folder / "run" / "distillation" / "student.pt").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--layers", "2"), "from 1 to 1"),
        (("--layers", "0"), "--layers 0"),
        (("--epochs", "0"), "--epochs 0"),
        (("--minutes", "-1"), "--minutes -1"),
        (("--minutes", "nan"), "--minutes nan"),
        (("--texts", "nowhere.txt"), "nowhere.txt cannot be read"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_said(workshop, tmp_path, capsys, more, told):
    assert distil(workshop, tmp_path / "small", *more) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "small").exists()


@pytest.mark.slow
def test_a_run_without_an_epoch_and_a_folder_of_others_are_refused(workshop, tmp_path, capsys):
    assert distil(workshop, tmp_path / "small", name="empty") == 2
    assert "no epoch yet" in capsys.readouterr().err
    (tmp_path / "mine.txt").write_text("mine")
    assert distil(workshop, tmp_path) == 2
    assert "mine.txt" in capsys.readouterr().err
    (tmp_path / "empty.txt").write_text("\n \n")
    assert distil(workshop, tmp_path / "small", "--texts", str(tmp_path / "empty.txt")) == 2
    assert "contains no sentence" in capsys.readouterr().err
    assert main(["distil", *workshop.arguments("run")]) == 2
    assert "--to DIR" in capsys.readouterr().err
