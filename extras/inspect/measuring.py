"""Measures every clip of a dataset: sound, copies, likelihood, voice; caches the results.

A recording is decoded once for all its missing figures. Figures are cached by the hashes of
recording and model, so that a second run computes only new ones. `extras.inspect.outliers` judges
them.
"""

import base64
import hashlib
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from extras.inspect.outliers import Measurements, group_voices, is_speech
from extras.inspect.outside_models import OutsideModel
from extras.inspect.settings import InspectSettings
from extras.inspect.sound import SoundFacts, find_copies, fingerprint, measure
from machine.storage.checksums import sha256_of
from machine.storage.facts import Facts
from train.concurrency import lookahead
from train.dataset import features
from train.dataset.dataset import Clip
from train.dataset.entries import shown_path
from train.progress import with_progress
from train.run_context import RunContext
from train.settings import TrainSettings
from xtts.audio import SPEAKER_RATE, AudioError, facts, read, resample
from xtts.evaluation.word_evidence import log_likelihoods
from xtts.model.gpt import GPT
from xtts.model.loading import load_gpt, read_tensors
from xtts.model.vocoder import load_speaker_encoder

log = logging.getLogger("train")

# Incremented when a figure is measured differently.
VERSION = 1
_OTHER_TEXTS = 2
_MIN_VOICE_SECONDS = 0.7
# The models that measure each waveform, by their names in messages.
_OURS, _SPEAKER, _SPOOF = "the base's speaker encoder", "SPEAKER_MODEL", "SPOOF_MODEL"

# For each of them: the key of its results in the cache, and a function of `[samples]` at 16 kHz.
Models = dict[str, tuple[str, Callable[[torch.Tensor], str | float]]]
# Model -> SHA-256 -> its answer: an embedding as text, or a score.
Answers = dict[str, dict[str, Any]]
Sound = list[Any]  # [the fields of `SoundFacts`, fingerprint], as JSON values


def inspect(
    settings: TrainSettings, context: RunContext, *, with_likelihood: bool = True
) -> tuple[list[Measurements], list[str]]:
    """Measures all clips of a dataset, in order, except those that can no longer be decoded. Also
    returns sentences about the whole dataset. with_likelihood: scores each clip with the base.

    Raises:
        OutsideModelError: SPEAKER_MODEL or SPOOF_MODEL has an unsupported shape.
    """
    models = _models(settings, context)
    answers: Answers = {name: {} for name in models}
    cache = Facts(settings.cache_dir, f"inspection {VERSION}")
    try:
        sound_by_audio = _listen(context.data.clips, models, cache, answers)
        clips = [clip for clip in context.data.clips if clip.audio_sha256 in sound_by_audio]
        sounds = [sound_by_audio[clip.audio_sha256] for clip in clips]
        files = [shown_path(clip.path, settings.dataset_dir) for clip in clips]
        copies = _copies(files, [print_ for _, print_ in sounds])
        likely = _likelihoods(settings, context, clips, cache) if with_likelihood else {}
        likeness, others, notes = _judge_voices(clips, answers)
        scores = answers.get(_SPOOF, {})
        measured = []
        for number, clip in enumerate(clips):
            spoken = context.tokenizer.read(clip.text, clip.language).words
            nats, evidence = likely.get(number, (None, None))
            measured.append(
                Measurements(
                    files[number],
                    sum(map(str.isalnum, spoken)),
                    SoundFacts(**sounds[number][0]),
                    nats,
                    evidence,
                    copies.get(number, ""),
                    others.get(number, ""),
                    likeness.get(number),
                    scores.get(clip.audio_sha256),
                )
            )
        return measured, notes
    finally:
        # Added last and model by model, so that the file does not depend on the order of computing.
        for name, values in answers.items():
            for sha256, value in values.items():
                if cache.get(f"{models[name][0]}|{sha256}") is None:
                    cache.put(f"{models[name][0]}|{sha256}", value)
        cache.save()


def dependency_hash(settings: TrainSettings, context: RunContext) -> str:
    """A hash of everything that the measurements and their judgement depend on."""
    clips = [(clip.name, clip.sha256) for clip in context.data.clips]
    assert isinstance(settings, InspectSettings)
    paths = [Path(setting) for setting in (settings.speaker_model, settings.spoof_model) if setting]
    models = [sha256_of(path) for path in paths if path.is_file()]
    sources = sorted(Path(__file__).parent.glob("*.py"))  # other code measures otherwise
    code = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    content = repr((clips, paths, models, _base_hash(settings, context), code))
    return hashlib.sha256(content.encode()).hexdigest()


# One pass over the recordings


def _models(settings: TrainSettings, context: RunContext) -> Models:
    assert isinstance(settings, InspectSettings)

    @cache  # loaded for the first clip without a cached result
    def encoder() -> torch.nn.Module:
        return load_speaker_encoder(read_tensors(context.base / "model.pth"), context.config)

    @torch.inference_mode()
    def embed(waveform: torch.Tensor) -> str:
        return _pack(encoder()(waveform[None]).flatten().numpy())

    models: Models = {_OURS: (f"voice|{_base_hash(settings, context)}", embed)}
    if settings.speaker_model:
        path = Path(settings.speaker_model)
        speaker = OutsideModel(_SPEAKER, path)
        models[_SPEAKER] = (f"voice|{sha256_of(path)[:16]}", lambda sound: _pack(speaker.embedding(sound)))
    if settings.spoof_model:
        path = Path(settings.spoof_model)
        spoof = OutsideModel(_SPOOF, path)
        models[_SPOOF] = f"spoof-{sha256_of(path)[:16]}", spoof.spoof_score
    return models


def _listen(clips: Sequence[Clip], models: Models, cache: Facts, answers: Answers) -> dict[str, Sound]:
    """Decodes recordings with missing figures, and adds the models' results to `answers`. Returns
    SHA-256 -> (facts, fingerprint), as JSON values, for all recordings that can be decoded."""

    def all_answered(sha256: str, sound: Sound, waveform: torch.Tensor | None = None) -> bool:
        """Whether all results are known; computes missing ones if a waveform is given."""
        measured = SoundFacts(**sound[0])
        # The voice is measured only in speech that is long enough.
        voiced = is_speech(measured) and measured.spoken_seconds >= _MIN_VOICE_SECONDS
        for name in (name for name in models if voiced or name == _SPOOF):
            key, ask = models[name]
            answer = cache.get(f"{key}|{sha256}")
            if answer is None:
                if waveform is None:
                    return False
                answer = ask(waveform)
            answers[name][sha256] = answer
        return True

    def decoded(clip: Clip) -> tuple[Sound, torch.Tensor]:
        rate = facts(clip.path).rate
        samples = read(clip.path, rate)
        sound = cache.get(f"sound|{clip.audio_sha256}") or _sound(samples.numpy(), rate)
        return sound, resample(samples, rate, SPEAKER_RATE)

    sounds = {clip.audio_sha256: cache.get(f"sound|{clip.audio_sha256}") for clip in clips}
    missing = [
        clip
        for clip in clips
        if not (sound := sounds[clip.audio_sha256]) or not all_answered(clip.audio_sha256, sound)
    ]
    clips_with_progress = with_progress(missing, len(missing), "Sound")
    with ThreadPoolExecutor() as pool:  # decoding and FFTs release the GIL
        begun = ((clip, pool.submit(decoded, clip)) for clip in clips_with_progress)
        for clip, result in lookahead(begun, os.cpu_count() or 1):
            try:
                sound, waveform = result.result()
            except (AudioError, OSError) as error:
                log.warning("%s can no longer be read and is skipped: %s", clip.name, error)
                sounds[clip.audio_sha256] = None
                continue
            sounds[clip.audio_sha256] = sound
            cache.put(f"sound|{clip.audio_sha256}", sound)
            all_answered(clip.audio_sha256, sound, waveform)
    return {sha256: sound for sha256, sound in sounds.items() if sound}


def _sound(samples: np.ndarray, rate: int) -> Sound:
    """[facts, fingerprint] as JSON values."""
    sound = measure(samples, rate)
    first = round(sound.lead_seconds * rate)
    last = len(samples) - round(sound.tail_seconds * rate)
    bits = fingerprint(samples[first:last], rate).astype(np.uint32).tobytes()
    rounded = {name: round(value, 5) for name, value in asdict(sound).items()}
    return [rounded, base64.b64encode(bits).decode()]


def _copies(files: Sequence[str], prints: Sequence[str]) -> dict[int, str]:
    """Index of a copy -> file of its original."""
    unpacked = [np.frombuffer(base64.b64decode(encoded), np.uint32) for encoded in prints]
    first: dict[int, int] = {}
    for original, other, _ in find_copies(unpacked):
        first.setdefault(other, first.get(original, original))
    return {other: files[original] for other, original in first.items()}


# Likelihood


def _base_hash(settings: TrainSettings, context: RunContext) -> str:
    path = context.base / "model.pth"
    return sha256_of(path, kept_in=settings.cache_dir)[:16]


def _likelihoods(
    settings: TrainSettings, context: RunContext, clips: Sequence[Clip], cache: Facts
) -> dict[int, tuple[float, float]]:
    """Index of a clip -> its result of `likelihood`."""
    base, device = _base_hash(settings, context), context.device.value
    others = _other_texts(clips)
    keys = []
    for clip, texts in zip(clips, others, strict=True):
        content = repr([tuple(text) for text in (clip.tokens, *texts)]).encode()
        digest = hashlib.sha256(content).hexdigest()[:16]
        keys.append(f"likelihood|{base}|{clip.audio_sha256}|{digest}")
    missing = [number for number, key in enumerate(keys) if cache.get(key) is None]
    if missing:
        started = time.monotonic()
        features_cache = features.build(
            context.data, context.base, context.config, settings.cache_dir, context.device.features
        )
        gpt = load_gpt(read_tensors(context.base / "model.pth"), context.config, device=device)
        gpt.eval().requires_grad_(False)
        places = {clip.name: number for number, clip in enumerate(context.data.clips)}
        for number in with_progress(missing, len(missing), "Likelihood"):
            index = places[clips[number].name]
            if features_cache.present([index]):
                result = likelihood(
                    gpt,
                    features_cache.codes(index),
                    features_cache.mel(index),
                    clips[number].tokens,
                    others[number],
                )
                cache.put(keys[number], [round(figure, 4) for figure in result])
        seconds_taken = time.monotonic() - started
        log.info("Likelihood: %d clips in %.1f s. The results are cached.", len(missing), seconds_taken)
    return {number: scores for number, key in enumerate(keys) if (scores := cache.get(key))}


@torch.inference_mode()
def likelihood(
    gpt: GPT, codes: np.ndarray, mel: np.ndarray, tokens: tuple[int, ...], others: list[tuple[int, ...]]
) -> tuple[float, float]:
    """Scores one clip by the base's GPT, teacher-forced in one padded pass. Works in all languages
    of the base, without a recogniser. Unlikely codes indicate a poor recording or an unusual way of
    speaking; codes that are equally likely with another clip's text indicate a wrong text.

    Args:
        gpt: The base's GPT, in evaluation mode.
        codes: `[n]`, of the whole clip; codes beyond the model's positions are ignored.
        mel: The conditioning mel `[80, frames]` of the clip itself.
        tokens: The tokens of its text.
        others: The tokens of other texts.

    Returns:
        (the mean negative log-likelihood of a code given its text, in nats; the gain in nats per
        code of its text over the best of the other texts).
    """
    device = gpt.mel_head.weight.device
    latents = gpt.conditioning_latents(torch.from_numpy(np.array(mel, np.float32)).to(device)[None])
    most = gpt.shape.max_codes
    targets = torch.from_numpy(np.array(codes[:most], np.int64)).to(device)
    fit, *foreign = (
        float(total) / len(targets)
        for total in log_likelihoods(gpt, latents, [tokens, *others], targets, stopped=False)
    )
    return -fit, fit - max(foreign, default=fit)


def _other_texts(clips: Sequence[Clip]) -> list[list[tuple[int, ...]]]:
    """For each clip, different texts of other clips with similar length."""
    texts = sorted({clip.tokens for clip in clips}, key=lambda tokens: (len(tokens), tokens))
    places = {tokens: number for number, tokens in enumerate(texts)}
    others = []
    for clip in clips:
        at = places[clip.tokens]
        near = [*range(at + 1, at + 1 + _OTHER_TEXTS), *range(at - 1, at - 1 - _OTHER_TEXTS, -1)]
        others.append([texts[neighbour] for neighbour in near if 0 <= neighbour < len(texts)][:_OTHER_TEXTS])
    return others


# Voices


def _judge_voices(
    clips: Sequence[Clip], answers: Mapping[str, Mapping[str, str]]
) -> tuple[dict[int, float], dict[int, str], list[str]]:
    """By index, the likeness of each clip to its speaker's other clips by our encoder, and a
    sentence for each that sounds like another person; and sentences on speakers who sound like
    two."""
    likeness: dict[int, float] = {}
    others: dict[int, str] = {}
    notes = []
    voiced = [number for number, clip in enumerate(clips) if clip.audio_sha256 in answers[_OURS]]
    for speaker in sorted({clips[number].speaker for number in voiced}):
        of_speaker = [number for number in voiced if clips[number].speaker == speaker]
        for model in (name for name in answers if name != _SPOOF):
            packed = [answers[model][clips[number].audio_sha256] for number in of_speaker]
            groups = group_voices([_unpack(embedding) for embedding in packed])
            for number, value in zip(of_speaker, groups.likeness, strict=True):
                likeness.setdefault(number, value)
            for place in groups.others:
                value = groups.likeness[place]
                finding = f"It sounds like another person than most clips, by {model} ({value:.2f})."
                others.setdefault(of_speaker[place], finding)
            if groups.two_people:
                notes.append(
                    f"The {len(of_speaker)} clips of {speaker!r} sound like two people by {model} "
                    f"(separation {groups.separation:.2f}): {len(groups.others)} of them differ "
                    "from the others. Name each speaker separately, or leave them out."
                )
    return likeness, others, notes


def _pack(embedding: np.ndarray) -> str:
    return base64.b64encode(embedding.astype(np.float16).tobytes()).decode()


def _unpack(packed: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed), np.float16).astype(np.float32)
