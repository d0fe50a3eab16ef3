"""What the page's fake server knows: epochs, curves, voices, and wavs made by code."""

import io
import threading
import wave
from dataclasses import dataclass, field
from typing import Any

import numpy as np

RATE = 24_000
TEXT = "The harbour was quiet when the first boats came in."


def speech(seconds: float, pitch_hertz: float, level: float = 0.3) -> np.ndarray:
    """Something with syllables, harmonics and pauses, so that a spectrogram shows structure."""
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
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(RATE)
        writer.writeframes((samples * 32767).astype("<i2").tobytes())
    return file.getvalue()


def epoch(number: int, **more: Any) -> dict[str, Any]:
    """One row of /v1/runs, as after `number` epochs of a run that goes well."""
    where = f"/v1/runs/current/epochs/{number}"
    sample = {
        "output": f"{where}/output.wav", "reference": f"{where}/reference.wav", "text": TEXT,
        "mode": "cpu_subprocess", "reason": "no GPU on this machine", "device": "cpu",
        "seconds": 2.1, "audio_seconds": 3.0, "similarity": 0.5 + 0.4 * (1 - 0.7**number),
    }  # fmt: skip
    made = {
        "epoch": number, "step": 40 * number, "checkpoint": True, "verified": True,
        "checkpoint_state": "whole",
        "sample": sample, "validation_loss": 2 + 2 * 0.7**number, "is_best": False,
        "train_loss": 1.9 + 2.2 * 0.7**number, "is_served": False,
    }  # fmt: skip
    return made | more


@dataclass
class World:
    """What the server knows; tests change it."""

    key: str | None = None
    epochs: list[dict[str, Any]] = field(default_factory=lambda: [epoch(n) for n in (1, 2, 3)])
    training: bool = True
    promoted: int | None = None
    message: str = ""
    state: str = "ready"
    events: bool = True
    formats: tuple[str, ...] = ("pcm", "wav")
    fault: dict[str, Any] | None = None
    records: list[dict[str, Any]] = field(default_factory=list)
    languages: tuple[str, ...] = ("en", "pt")
    voices: list[dict[str, Any]] = field(default_factory=list)
    said: list[dict[str, Any]] = field(default_factory=list)
    news: list[tuple[str, str]] = field(default_factory=list)
    pause_seconds: float = 0.0
    breaks_off: bool = False
    changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        noise = np.random.default_rng(0)
        for one in self.epochs:
            self.learn(one, noise)
        self.voices.append(
            {"id": "default", "name": "Reference of the epoch", "created": None,
             "duration_seconds": 4.8, "origin": "served"}
        )  # fmt: skip

    def learn(self, one: dict[str, Any], noise: np.random.Generator) -> None:
        for step in range(one["step"] - 39, one["step"] + 1):
            loss = 1.9 + 2.4 * 0.7 ** (step / 40) + noise.normal(0, 0.15)
            row = {"kind": "train", "epoch": one["epoch"], "step": step, "audio_loss": loss}
            self.records.append(row)
        last = {"epoch": one["epoch"], "step": one["step"], "audio_loss": one["validation_loss"]}
        self.records.append({"kind": "validation", **last})

    def add(self, one: dict[str, Any]) -> None:
        self.epochs.append(one)
        self.learn(one, np.random.default_rng(one["epoch"]))
        self.tell("epoch")
        self.tell("metrics")

    def tell(self, event: str) -> None:
        with self.changed:
            self.news.append((event, "{}"))
            self.changed.notify_all()

    @property
    def served(self) -> dict[str, Any] | None:
        newest = max((one["epoch"] for one in self.epochs), default=None)
        number = self.promoted or newest
        if number is None:
            return None
        return {"run": "current", "epoch": number}

    def status(self) -> dict[str, Any]:
        return {
            "device": "cpu", "execution_provider": "torch", "requested_provider": "auto",
            "message": self.message, "reason_code": None, "state": self.state, "ready": True,
            "voice": f"epoch {self.served['epoch']}" if self.served else "demo",
            "queue": {"waiting": 0, "slots": 4, "speaking": 0}, "licence": "MIT",
            "version": "0.1.0", "languages": self.languages,
        }  # fmt: skip

    def runs(self) -> dict[str, Any]:
        served = self.served
        best = min(self.epochs, key=lambda one: one["validation_loss"], default=None)
        rows = [
            one
            | {
                "is_best": one is best,
                "is_served": bool(served and one["epoch"] == served["epoch"]),
            }
            for one in self.epochs
        ]
        run = {"id": "current", "path_name": "output", "created": "2026-01-02T03:04:05Z",
               "epochs": rows, "training": self.training}  # fmt: skip
        return {"runs": [run], "served": served, "promoted": self.promoted is not None}
