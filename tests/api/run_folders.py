"""Run folders as the trainer leaves them, with a few bytes for each checkpoint."""

import json
from pathlib import Path

import numpy as np
import soundfile

from machine.storage.checksums import Manifest, read_manifest, write_manifest
from machine.storage.files import replace_file
from xtts.voices import learned_decoder
from xtts.voices.evaluation_file import (
    Candidate,
    CandidateKind,
    Evaluation,
    JudgeDescription,
    JudgeFigure,
    MeanInterval,
    SpokenSentence,
    Verdict,
    write_evaluation,
)
from xtts.voices.learned_decoder import LearnedDecoder
from xtts.voices.run_folder import RunFolder

TEXTS = ("The first sentence.", "The second one.", "A third.")
JUDGES = {
    "words": JudgeDescription("share", "higher", "How much of the text is heard."),
    "voice": JudgeDescription("scale", "higher", "1 is the person, 0 is another voice."),
    "rate_drift_percent": JudgeDescription("%", "zero", "How much faster than the person."),
    "word_errors": JudgeDescription("share", "lower", "Wrong words.", "no recogniser"),
}


def write_epoch(folder: Path, epoch: int, *, loss: float = 2.0, content: bytes = b"") -> None:
    """Writes a complete epoch of 3.5 minutes.

    It has a checkpoint, manifest, sample, reference, and two rows of metrics.
    """
    run = RunFolder(folder)
    run.checkpoints.mkdir(parents=True, exist_ok=True)
    run.samples.mkdir(parents=True, exist_ok=True)
    path = run.checkpoint_path(epoch)
    written = replace_file(path, lambda file: file.write(content or f"epoch {epoch}".encode()))
    losses = {"validation_audio_loss": loss}
    base = {"name": "demo", "sha256": "0" * 64}
    data = {"clips": 40.0, "minutes": 3.5}
    manifest = Manifest(epoch, epoch * 10, {path.name: written}, losses, base, data=data)
    write_manifest(run.manifest_path(epoch), manifest)
    for what, hertz in (("output", 220), ("reference", 330)):
        wave = np.sin(np.arange(24_000) / 24_000 * 2 * np.pi * hertz).astype("float32")
        soundfile.write(run.samples / f"epoch_{epoch}_{what}.wav", wave, 24_000)
    sidecar = {
        "epoch": epoch,
        "checkpoint_sha256": written.sha256,
        "text": "Hello.",
        "device": "cpu",
        "mode": "in_process",
        "reason": "no GPU",
        "seconds": 1.0,
        "audio_seconds": 1.0,
        "sample_rate": 24_000,
        "similarity": 0.5,
        "ending": "good",
        "words": [{"word": "Hello", "start_time": 0.1, "end_time": 0.6}],
    }
    (run.samples / f"epoch_{epoch}_output.json").write_text(json.dumps(sidecar))
    with run.metrics.open("a") as file:
        for step in (epoch * 10 - 1, epoch * 10):
            row = {"kind": "train", "epoch": epoch, "step": step, "loss": float(step)}
            file.write(json.dumps(row) + "\n")


def write_blend(folder: Path, epoch: int, share: float, content: bytes = b"a blend") -> None:
    """Writes best.pt and its manifest for a blend of an existing epoch."""
    run = RunFolder(folder)
    written = replace_file(run.best_blend, lambda file: file.write(content))
    blend = {"epoch": epoch, "share": share, "checkpoint_sha256": sha256_of_epoch(run, epoch)}
    manifest = Manifest(epoch, epoch * 10, {run.best_blend.name: written}, blend=blend)
    write_manifest(run.best_blend_manifest, manifest)


def write_learned_decoder(folder: Path, epoch: int, share: float = 1.0, content: bytes = b"tensors") -> None:
    """Writes a decoder for the weights of an existing epoch, or of the base (0)."""
    run = RunFolder(folder)
    weights = (epoch, share, sha256_of_epoch(run, epoch)) if epoch else (0, 0.0, "")
    file = replace_file(run.best_decoder, lambda out: out.write(content))
    learned_decoder.write(run.best_decoder, LearnedDecoder(*weights, 2.0, 1.5, 40, 250, file=file))


def sha256_of_epoch(run: RunFolder, epoch: int) -> str:
    name = run.checkpoint_path(epoch).name
    return read_manifest(run.manifest_path(epoch)).files[name].sha256


def candidate(
    folder: Path, kind: CandidateKind, epoch: int = 0, share: float = 0.0, words: float = 0.5, **more: object
) -> Candidate:
    """A judged candidate with three sentences; the first two have recordings."""
    run = RunFolder(folder)
    sounds = folder / "samples" / "evaluation"
    sounds.mkdir(parents=True, exist_ok=True)
    sentences = []
    for number, text in enumerate(TEXTS):
        name = f"{kind}_{epoch}_{share:g}_{number}.wav"
        wave = np.sin(np.arange(12_000) / 24_000 * 2 * np.pi * (200 + 40 * epoch + number))
        if number < 2:
            soundfile.write(sounds / name, wave.astype("float32"), 24_000)
        wav = f"samples/evaluation/{name}" if number < 2 else None
        sentences.append(
            SpokenSentence(
                text, "built_in", number, 0.5, 0.5, 11, 9, "finished", {"words": words, "voice": None}, wav
            )
        )
    against = None if kind == "base" else MeanInterval(words - 0.5, words - 0.6, words - 0.4, 3)
    figures = {
        "words": JudgeFigure(words, words - 0.1, words + 0.1, 3, against),
        "voice": JudgeFigure(0.2, 0.1, 0.3, 3, against),
    }
    given: dict[str, object] = {
        "unfinished": 0,
        "cut": 0,
        "babbling": 0,
        "judges": figures,
        "validation_audio_loss": None,
        "indistinguishable_from_base": kind == "base",
        "ruled_out": None,
        "remarks": [],
    } | more
    sha256 = "" if kind == "base" else sha256_of_epoch(run, epoch)
    return Candidate(kind, epoch, share, sha256, **given, seconds=1.0, device="cpu", sentences=sentences)


def write_evaluated(folder: Path, best: Candidate | None, *others: Candidate) -> None:
    """Writes evaluation.json: the base, `others`, and a verdict if `best` is given."""
    run = RunFolder(folder)
    verdict = None
    if best is not None:
        verdict = Verdict(
            best.kind, best.epoch, best.share, "It speaks best.", "", False, best.checkpoint_sha256
        )
    candidates = [candidate(folder, "base"), *others]
    write_evaluation(
        run.evaluation_file,
        Evaluation(
            "2026-11-22T20:00:00+00:00",
            "en",
            {"name": "demo", "sha256": "0" * 64},
            "5" * 64,
            JUDGES,
            {"clips": 9},
            {"words": 0.04},
            candidates,
            verdict,
        ),
    )
