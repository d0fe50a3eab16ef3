"""Measures every clip of a dataset: sound, copies, likelihood, voices. What was found is kept.

Each figure is kept under the hash of its recording and of the model that gave it, so that a second
look computes what is new only. Judging is `train.inspection.judging`'s.
"""

import base64
import hashlib
import itertools
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from machine.devices.selection import Choice
from machine.storage.file_cache import FileCache
from machine.storage.hashes import sha256_of
from train.dataset import features
from train.dataset.dataset import Clip, Dataset
from train.inspection import people
from train.inspection.duplicates import find_copies, fingerprint
from train.inspection.judging import Measurements, find_suspects
from train.inspection.likelihood import Likelihood, likelihood
from train.inspection.outside_models import OutsideModel
from train.inspection.sound import SoundFacts, measure
from train.progress import with_progress
from xtts.audio import SPEAKER_RATE, AudioError, facts, read, resample
from xtts.model.config import ModelConfig
from xtts.model.loading import load_gpt, read_tensors
from xtts.model.vocoder import load_speaker_encoder
from xtts.text.tokenizer import Tokenizer

log = logging.getLogger("train")

# Another number where a figure is measured otherwise.
VERSION = 1
_PORTION = 16
T = TypeVar("T")
_OTHER_TEXTS = 2
# Sounds that are no speech at all have no voice.
_NO_VOICE = {"noise", "tone", "steady"}
_LEAST_VOICE_SECONDS = 0.7
_OURS = "the base's speaker encoder"


@dataclass(frozen=True)
class InspectionModels:
    """What a look is taken with. device: of the GPT; with_likelihood: whether it is asked;
    features_on: where codes and mels are computed that are not there."""

    base: Path
    config: ModelConfig
    tokenizer: Tokenizer
    device: str
    cache_dir: Path
    with_likelihood: bool = True
    speaker_model: Path | None = None
    spoof_model: Path | None = None
    features_on: Choice = features.ON_CPU


@dataclass(frozen=True)
class Inspection:
    """measured: of each clip, in the dataset's order; notes: sentences about the whole dataset."""

    measured: tuple[Measurements, ...]
    notes: tuple[str, ...]


def inspect(data: Dataset, models: InspectionModels) -> Inspection:
    """Measures all clips of a dataset. What can no longer be decoded is left out.

    Raises:
        OutsideModelError: SPEAKER_MODEL or SPOOF_MODEL is of another shape.
    """
    speaker = _outside("SPEAKER_MODEL", models.speaker_model)
    spoof = _outside("SPOOF_MODEL", models.spoof_model)
    cache = FileCache(models.cache_dir / f"inspection-{VERSION}.json")
    try:
        sounds = _sounds(data.clips, cache)
        clips = [clip for clip in data.clips if clip.audio_sha256 in sounds]
        measured = [
            Measurements(clip.name, _letters(clip, models.tokenizer), sounds[clip.audio_sha256][0])
            for clip in clips
        ]
        measured = _with_copies(measured, [sounds[clip.audio_sha256][1] for clip in clips])
        if models.with_likelihood:
            measured = _with_likelihood(measured, clips, data, models, cache)
        measured, notes = _with_voices(measured, clips, models, speaker, cache)
        if spoof:
            scores = _each(clips, "Spoof scores", f"spoof-{_hash(models.spoof_model)}", cache,
                           lambda clip: spoof.spoof_score(_heard(clip)))  # fmt: skip
            measured = [replace(m, spoof=s) for m, s in zip(measured, scores, strict=True)]
        return Inspection(tuple(measured), tuple(notes))
    finally:
        cache.save()


def _outside(setting: str, path: Path | None) -> OutsideModel | None:
    return OutsideModel(setting, path) if path else None


def _hash(path: Path | None) -> str:
    return sha256_of(path)[:16] if path else ""


def _letters(clip: Clip, tokenizer: Tokenizer) -> int:
    read_text = tokenizer.show_transcript(clip.text, clip.language)
    return sum(map(str.isalnum, read_text))


def _each(
    clips: Sequence[Clip], what: str, key: str, cache: FileCache, compute: Callable[[Clip], T]
) -> list[T]:
    """A JSON value for each clip, from the cache where it is there."""
    known = [cache.get(f"{key}|{clip.audio_sha256}") for clip in clips]
    missing = [clip for clip, one in zip(clips, known, strict=True) if one is None]
    for clip in with_progress(missing, len(missing), what, patience_seconds=2.0):
        cache.put(f"{key}|{clip.audio_sha256}", compute(clip))
    return [cache.get(f"{key}|{clip.audio_sha256}") for clip in clips]  # type: ignore[misc]


# Sound and copies


def _sounds(clips: Sequence[Clip], cache: FileCache) -> dict[str, tuple[SoundFacts, np.ndarray]]:
    """SHA-256 -> (facts, fingerprint) of every recording that can be decoded."""
    missing = [clip for clip in clips if cache.get(f"sound|{clip.audio_sha256}") is None]
    portions = [missing[at : at + _PORTION] for at in range(0, len(missing), _PORTION)]
    with ThreadPoolExecutor() as pool:  # decoding and FFTs leave the interpreter's lock
        done = itertools.chain.from_iterable(pool.map(_measured_all, portions))
        for clip, one in zip(
            missing, with_progress(done, len(missing), "Sound", patience_seconds=2.0), strict=True
        ):
            if one is not None:
                cache.put(f"sound|{clip.audio_sha256}", one)
    found = {}
    for clip in clips:
        if kept := cache.get(f"sound|{clip.audio_sha256}"):
            print_ = np.frombuffer(base64.b64decode(kept[1]), np.uint32)
            found[clip.audio_sha256] = SoundFacts(**kept[0]), print_
    return found


def _measured_all(clips: Sequence[Clip]) -> list[list[Any] | None]:
    return [_measured(clip) for clip in clips]


def _measured(clip: Clip) -> list[Any] | None:
    """[facts, fingerprint] as JSON values; None for a file that can no longer be read."""
    try:
        rate = facts(clip.path).rate
        samples = read(clip.path, rate).numpy()
    except (AudioError, OSError) as error:
        log.warning("%s can no longer be read and is not looked at: %s", clip.name, error)
        return None
    found = measure(samples, rate)
    first = round(found.lead_seconds * rate)
    last = len(samples) - round(found.tail_seconds * rate)
    bits = fingerprint(samples[first:last], rate).astype(np.uint32).tobytes()
    rounded = {name: round(value, 5) for name, value in asdict(found).items()}
    return [rounded, base64.b64encode(bits).decode()]


def _with_copies(
    measured: Sequence[Measurements], prints: Sequence[np.ndarray]
) -> list[Measurements]:
    first: dict[int, int] = {}
    for one, other, _ in find_copies(prints):
        first.setdefault(other, first.get(one, one))
    return [
        replace(clip, copy_of=measured[first[number]].name) if number in first else clip
        for number, clip in enumerate(measured)
    ]


# Likelihood


def _with_likelihood(
    measured: Sequence[Measurements],
    clips: Sequence[Clip],
    data: Dataset,
    models: InspectionModels,
    cache: FileCache,
) -> list[Measurements]:
    base = sha256_of(models.base / "model.pth", kept_in=models.cache_dir / "base_sha256")[:16]
    others = _other_texts(clips)
    keys = [
        f"likelihood|{base}|{clip.audio_sha256}|{_hash_of(clip.tokens, *texts)}"
        for clip, texts in zip(clips, others, strict=True)
    ]
    missing = [number for number, key in enumerate(keys) if cache.get(key) is None]
    if missing:
        started = time.monotonic()
        known = features.build(
            data, models.base, models.config, models.cache_dir, models.features_on
        )
        gpt = load_gpt(read_tensors(models.base / "model.pth"), models.config, device=models.device)
        gpt.eval().requires_grad_(False)
        places = {clip.name: number for number, clip in enumerate(data.clips)}
        for number in with_progress(missing, len(missing), "Likelihood", patience_seconds=2.0):
            index = places[clips[number].name]
            if known.present([index]):
                found = likelihood(
                    gpt, known.codes(index), known.mel(index), clips[number].tokens, others[number]
                )
                cache.put(keys[number], [round(found.nats, 4), round(found.evidence, 4)])
        taken = time.monotonic() - started
        log.info("Likelihood: %d clips in %.1f s, kept for the next time.", len(missing), taken)
    return [
        replace(one, likelihood=Likelihood(*kept)) if (kept := cache.get(key)) else one
        for one, key in zip(measured, keys, strict=True)
    ]


def _hash_of(*texts: Sequence[int]) -> str:
    """A short name for these token ids."""
    return hashlib.sha256(repr([tuple(text) for text in texts]).encode()).hexdigest()[:16]


def _other_texts(clips: Sequence[Clip]) -> list[list[tuple[int, ...]]]:
    """For each clip, texts of other clips of about its length, none of them its own."""
    texts = sorted({clip.tokens for clip in clips}, key=lambda tokens: (len(tokens), tokens))
    places = {tokens: number for number, tokens in enumerate(texts)}
    found = []
    for clip in clips:
        at = places[clip.tokens]
        near = [*range(at + 1, at + 1 + _OTHER_TEXTS), *range(at - 1, at - 1 - _OTHER_TEXTS, -1)]
        found.append([texts[one] for one in near if 0 <= one < len(texts)][:_OTHER_TEXTS])
    return found


# Voices


def _heard(clip: Clip) -> torch.Tensor:
    rate = facts(clip.path).rate
    return resample(read(clip.path, rate), rate, SPEAKER_RATE)


def _with_voices(
    measured: Sequence[Measurements],
    clips: Sequence[Clip],
    models: InspectionModels,
    speaker: OutsideModel | None,
    cache: FileCache,
) -> tuple[list[Measurements], list[str]]:
    """Judges the clips of each speaker, by our speaker encoder and by SPEAKER_MODEL."""
    odd = {
        one.name for one in find_suspects(measured) if _NO_VOICE & {f.kind for f in one.findings}
    }
    usable = [
        number
        for number, one in enumerate(measured)
        if one.name not in odd and one.sound.spoken_seconds >= _LEAST_VOICE_SECONDS
    ]
    chosen = [clips[number] for number in usable]
    views: dict[str, list[np.ndarray]] = {_OURS: _our_embeddings(chosen, models, cache)}
    if speaker:
        key = f"voice|{_hash(models.speaker_model)}"
        packed = _each(chosen, "Voices (SPEAKER_MODEL)", key, cache,
                       lambda clip: _packed(speaker.embedding(_heard(clip))))  # fmt: skip
        views["SPEAKER_MODEL"] = [_unpacked(one) for one in packed]
    found, notes = list(measured), []
    for name in sorted({clip.speaker for clip in chosen}):
        own = [place for place, clip in enumerate(chosen) if clip.speaker == name]
        for model, embeddings in views.items():
            groups = people.group_voices([embeddings[place] for place in own])
            numbers = [usable[place] for place in own]
            _mark(found, numbers, groups, model)
            if groups.two_people:
                notes.append(
                    f"The {len(own)} clips of {name!r} sound like two people by {model} "
                    f"(separation {groups.separation:.2f}): {len(groups.others)} of them differ "
                    "from the others. Give each a speaker's name of their own, or leave them out."
                )
    return found, notes


def _mark(
    measured: list[Measurements], numbers: Sequence[int], groups: people.VoiceGroups, model: str
) -> None:
    others = {numbers[place] for place in groups.others}
    for number, likeness in zip(numbers, groups.likeness, strict=True):
        one = measured[number]
        reason = f"It sounds like somebody else than most clips by {model} ({likeness:.2f})."
        told = one.other_voice or (reason if number in others else "")
        voice = one.voice if one.voice is not None else likeness
        measured[number] = replace(one, other_voice=told, voice=voice)


def _our_embeddings(
    clips: Sequence[Clip], models: InspectionModels, cache: FileCache
) -> list[np.ndarray]:
    base = sha256_of(models.base / "model.pth", kept_in=models.cache_dir / "base_sha256")[:16]
    encoder: list[torch.nn.Module] = []

    @torch.inference_mode()
    def embed(clip: Clip) -> str:
        if not encoder:  # loaded when the first clip is not known
            state = read_tensors(models.base / "model.pth")
            encoder.append(load_speaker_encoder(state, models.config))
        return _packed(encoder[0](_heard(clip)[None]).flatten().numpy())

    return [_unpacked(one) for one in _each(clips, "Voices", f"voice|{base}", cache, embed)]


def _packed(embedding: np.ndarray) -> str:
    return base64.b64encode(embedding.astype(np.float16).tobytes()).decode()


def _unpacked(packed: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed), np.float16).astype(np.float32)
