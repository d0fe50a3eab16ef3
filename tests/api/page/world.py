"""The data of the page's fake server: epochs, curves, voices and synthetic wavs."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xtts.encoding import encode

RATE = 24_000
TEXT = "The harbour was quiet when the first boats came in."


def speech(seconds: float, pitch_hertz: float, level: float = 0.3) -> np.ndarray:
    """A synthetic signal with syllables, harmonics and pauses: its spectrogram shows structure."""
    time_seconds = np.arange(int(seconds * RATE)) / RATE
    pitch = pitch_hertz * (1 + 0.12 * np.sin(2 * np.pi * 0.6 * time_seconds))
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    formant = 700 + 500 * np.sin(2 * np.pi * 1.7 * time_seconds)
    voiced = sum(
        np.sin(k * phase) * np.exp(-(((k * pitch - formant) / 900) ** 2)) + np.sin(k * phase) / k**2
        for k in range(1, 30)
    )
    syllables = np.clip(np.sin(2 * np.pi * 2.1 * time_seconds) + 0.4, 0, 1)
    hiss = np.random.default_rng(1).normal(0, 0.02, len(time_seconds))
    wave_ = syllables * voiced + hiss
    return (level * wave_ / np.abs(wave_).max()).astype(np.float32)


def wav(samples: np.ndarray) -> bytes:
    return encode("wav", (samples * 32767).astype("<i2").tobytes())


def epoch(number: int, **more: Any) -> dict[str, Any]:
    """One row of /v1/runs after `number` epochs of a run that learns well."""
    where = f"/v1/runs/current/epochs/{number}"
    sample = {
        "output": f"{where}/output.wav",
        "reference": f"{where}/reference.wav",
        "text": TEXT,
        "mode": "cpu_subprocess",
        "reason": "no GPU on this machine",
        "device": "cpu",
        "seconds": 2.1,
        "audio_seconds": 3.0,
        "similarity": 0.5 + 0.4 * (1 - 0.7**number),
        "ending": "good",
        "words": [
            {"word": word.strip("."), "start_time": 0.25 * place, "end_time": 0.25 * (place + 1)}
            for place, word in enumerate(TEXT.split())
        ],
    }
    made = {
        "epoch": number,
        "step": 40 * number,
        "checkpoint": True,
        "verified": True,
        "checkpoint_state": "whole",
        "sample": sample,
        "validation_loss": 2 + 2 * 0.7**number,
        "is_best": False,
        "is_served": False,
    }
    return made | more


SENTENCES = (
    "The harbour was quiet when the first boats came in.",
    "Nobody had told the baker that it was Sunday.",
    "Seven grey geese flew over the frozen lake.",
)
JUDGES = {
    "words": {
        "unit": "share",
        "better": "higher",
        "absent": None,
        "meaning": "How much of the text the sound follows.",
    },
    "voice": {
        "unit": "0 another voice, 1 the person",
        "better": "higher",
        "absent": None,
        "meaning": "How near it is to the person.",
    },
    "rate_drift_percent": {
        "unit": "%",
        "better": "zero",
        "absent": None,
        "meaning": "How much faster than the person it speaks.",
    },
    "pitch_drift_percent": {
        "unit": "%",
        "better": "zero",
        "absent": None,
        "meaning": "How much higher than the person it speaks.",
    },
    "word_errors": {
        "unit": "share",
        "better": "lower",
        "absent": "no recogniser is installed",
        "meaning": "Words that a recogniser hears wrong.",
    },
}


def figure_of(mean: float, base: float | None, half: float) -> dict[str, Any]:
    """A judge's mean, and its difference from the base."""
    by = None
    if base is not None:
        by = {"mean": mean - base, "low": mean - base - half, "high": mean - base + half, "count": 3}
    return {"mean": mean, "low": mean - half, "high": mean + half, "count": 3, "against_base": by}


def judged(number: int, share: float = 1.0, **more: Any) -> dict[str, Any]:
    """A candidate of an evaluation: the base (0), an epoch or a blend."""
    kind = "base" if number == 0 else "epoch" if share == 1.0 else "blend"
    name = "base" if number == 0 else f"epoch_{number}"
    base = None if number == 0 else 1.0
    strength = number * share - (0.2 if kind == "blend" else 0)
    judges = {
        "words": figure_of(0.62 + 0.01 * strength, base and 0.62, 0.05),
        "voice": figure_of(0.2 + 0.15 * strength, base and 0.2, 0.06),
        "rate_drift_percent": figure_of(2.0 - 3.4 * strength, base and 2.0, 1.2),
        "pitch_drift_percent": figure_of(-6.0 + 2.0 * strength, base and -6.0, 2.2),
    }
    made = {
        "id": name if share == 1.0 else f"{name}_share_{share:g}",
        "kind": kind,
        "name": name.replace("_", " "),
        "epoch": number,
        "share": 0.0 if kind == "base" else share,
        "checkpoint_sha256": "" if kind == "base" else f"{number}" * 64,
        "unfinished": 0,
        "cut": 0,
        "babbling": 0,
        "judges": judges,
        "validation_loss": 2 + 2 * 0.7**number if kind == "epoch" else None,
        "indistinguishable_from_base": kind == "base",
        "ruled_out": None,
        "remarks": [],
        "is_best": False,
        "is_served": False,
        "can_speak": True,
    }
    return made | more


def evaluation(best: str = "epoch_2", **more: Any) -> dict[str, Any]:
    """An evaluation of the base, three epochs and a blend. Two sentences of epoch 3 never end."""
    candidates = [
        judged(0),
        judged(1, indistinguishable_from_base=True),
        judged(2),
        judged(
            3,
            unfinished=2,
            ruled_out="Two of three sentences never end.",
            remarks=["Two of three sentences never end.", "It speaks 8 % slower than the person."],
        ),
        judged(2, 0.5, can_speak=False),
    ]
    for candidate in candidates:
        candidate["is_best"] = candidate["id"] == best
    chosen = next(candidate for candidate in candidates if candidate["id"] == best)
    reason = f"{chosen['name'].capitalize()} is the best: nearest to the person."
    verdict = {
        "candidate": best,
        "kind": chosen["kind"],
        "epoch": chosen["epoch"],
        "share": chosen["share"],
        "advice": "",
        "indistinguishable_from_base": False,
        "reason": reason,
    }
    return {
        "made_at": "2026-01-02T03:04:05Z",
        "language": "en",
        "sentence_set": "5" * 64,
        "sentences": len(SENTENCES),
        "judges": JUDGES,
        "verdict": verdict,
        "smallest_difference": {"words": 0.05, "voice": 0.06},
        "candidates": candidates,
    } | more


@dataclass
class World:
    """The state of the fake server; tests change it."""

    key: str | None = None
    epochs: list[dict[str, Any]] = field(default_factory=lambda: [epoch(n) for n in (1, 2, 3)])
    training: bool = True
    promoted: int | None = None
    message: str = ""
    reason_code: str = ""
    state: str = "ready"
    events: bool = True
    formats: tuple[str, ...] = ("pcm", "wav")
    spoken_by: str = "epoch 3"
    fault: dict[str, Any] | None = None
    uploads: list[bytes] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    languages: tuple[str, ...] = ("en", "pt")
    extras: tuple[str, ...] = ("studio", "books")
    voices: list[dict[str, Any]] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    news: list[tuple[str, str]] = field(default_factory=list)
    pause_seconds: float = 0.0
    breaks_off: bool = False
    # The path that a proxy removes, as /tts.
    below: str = ""
    evaluation: dict[str, Any] | None = None
    follows: str | None = None
    spoken_with: list[str] = field(default_factory=list)
    speaking: int = 0
    # Additional answers, by path.
    answers: dict[str, Any] = field(default_factory=dict)
    # acts(method, path with query, body): an answer that changes a state; None for another path.
    acts: Callable[[str, str, bytes], Any] = lambda method, path, body: None
    sentences: tuple[str, ...] = SENTENCES
    changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        noise = np.random.default_rng(0)
        for epoch in self.epochs:
            self.learn(epoch, noise)
        self.voices.append(
            {
                "id": "default",
                "name": "Reference of the epoch",
                "created": None,
                "duration_seconds": 4.8,
                "origin": "served",
            }
        )

    def learn(self, epoch_row: dict[str, Any], noise: np.random.Generator) -> None:
        for step in range(epoch_row["step"] - 39, epoch_row["step"] + 1):
            loss = 1.9 + 2.4 * 0.7 ** (step / 40) + noise.normal(0, 0.15)
            row = {
                "kind": "train",
                "epoch": epoch_row["epoch"],
                "step": step,
                "audio_loss": loss,
                "progress": {
                    "epochs": 5,
                    "epoch_step": (step - 1) % 40 + 1,
                    "epoch_steps": 40,
                    "seconds_left": 15.0 * (200 - step),
                },
            }
            self.records.append(row)
        last = {
            "epoch": epoch_row["epoch"],
            "step": epoch_row["step"],
            "audio_loss": epoch_row["validation_loss"],
        }
        self.records.append({"kind": "validation", **last})

    def add(self, row: dict[str, Any]) -> None:
        self.epochs.append(row)
        self.learn(row, np.random.default_rng(row["epoch"]))
        self.tell("epoch")
        self.tell("metrics")

    def tell(self, event: str) -> None:
        with self.changed:
            self.news.append((event, "{}"))
            self.changed.notify_all()

    @property
    def served(self) -> dict[str, Any] | None:
        newest = max((epoch["epoch"] for epoch in self.epochs), default=None)
        number = self.promoted or newest
        if number is None:
            return None
        return {"run": "current", "epoch": number}

    def status(self) -> dict[str, Any]:
        return {
            "device": "cpu",
            "execution_provider": "torch",
            "requested_provider": "auto",
            "message": self.message,
            "reason_code": self.reason_code,
            "voice_reason": "the newest epoch",
            "state": self.state,
            "ready": True,
            "voice": f"epoch {self.served['epoch']}" if self.served else "demo",
            "queue": {"waiting": 0, "slots": 4, "speaking": self.speaking},
            "licence": "MIT",
            "version": "0.2.0",
            "languages": self.languages,
            "formats": self.formats,
            "extras": self.extras,
        }

    def details(self) -> dict[str, Any]:
        """The answer of /v1/runs/current/evaluation."""
        told = []
        for candidate in self.evaluation["candidates"]:
            where = f"/v1/runs/current/candidates/{candidate['id']}/sentences"
            told.append(
                {
                    "id": candidate["id"],
                    "name": candidate["name"],
                    "sentences": [
                        {
                            "text": text,
                            "source": "built_in",
                            "seed": 0,
                            "seconds": 2.0,
                            "expected_seconds": 2.1,
                            "outcome": "finished",
                            "sound": f"{where}/{number}.wav",
                            "judges": {"words": 0.6, "voice": None},
                        }
                        for number, text in enumerate(self.sentences)
                    ],
                }
            )
        return {"made_at": self.evaluation["made_at"], "candidates": told}

    def runs(self) -> dict[str, Any]:
        served = self.served
        best = min(self.epochs, key=lambda row: row["validation_loss"], default=None)
        rows = [
            epoch
            | {"is_best": epoch is best, "is_served": bool(served and epoch["epoch"] == served["epoch"])}
            for epoch in self.epochs
        ]
        run = {
            "id": "current",
            "path_name": "output",
            "created": "2026-01-02T03:04:05Z",
            "epochs": rows,
            "training": self.training,
            "minutes": 3.5,
        }
        listing = {"runs": [run], "served": served, "promoted": self.promoted is not None}
        if self.evaluation is not None:
            for row in self.evaluation["candidates"]:
                row["is_served"] = bool(served) and row["id"] == f"epoch_{served['epoch']}"
            run["evaluation"] = self.evaluation
            listing["follows"] = self.follows or "best"
        return listing
