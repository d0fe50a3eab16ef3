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
from typing import Any, NamedTuple

import numpy as np
import torch

from extras.inspect.outliers import ClipMeasurements, group_voices, is_speech
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
_NUM_OTHER_TEXTS = 2
_MIN_VOICE_SECONDS = 0.7
# The models that measure each waveform, by their names in messages.
_BASE_ENCODER, _SPEAKER, _SPOOF = "the base's speaker encoder", "SPEAKER_MODEL", "SPOOF_MODEL"


class WaveformModel(NamedTuple):
    """A model that measures waveforms.

    Attributes:
        key: The beginning of its keys in the cache.
        measure: A function of `[samples]` at 16 kHz; its result is an embedding as text, or a score.
    """

    key: str
    measure: Callable[[torch.Tensor], str | float]


Models = dict[str, WaveformModel]
# Name of the model -> SHA-256 of the recording -> result.
Results = dict[str, dict[str, Any]]
Sound = list[Any]  # [the fields of `SoundFacts`, fingerprint], as JSON values


class _VoiceJudgement(NamedTuple):
    """The judgement of the clips' voices.

    Attributes:
        likeness: Index of a clip -> its likeness to its speaker's other clips, by the base's encoder.
        findings: Index of a clip that sounds like another person -> a sentence.
        notes: A sentence for each speaker who sounds like two people.
    """

    likeness: dict[int, float]
    findings: dict[int, str]
    notes: list[str]


def inspect(
    settings: TrainSettings, context: RunContext, *, with_likelihood: bool = True
) -> tuple[list[ClipMeasurements], list[str]]:
    """Measures all clips of a dataset, in order, except those that can no longer be decoded. Also
    returns sentences about the whole dataset.

    Args:
        with_likelihood: Whether to score each clip with the base.

    Raises:
        OutsideModelError: SPEAKER_MODEL or SPOOF_MODEL has an unsupported shape.
    """
    models = _models(settings, context)
    results: Results = {name: {} for name in models}
    cache = Facts(settings.cache_dir, f"inspection {VERSION}")
    try:
        sound_by_audio = _listen(context.data.clips, models, cache, results)
        clips = [clip for clip in context.data.clips if clip.audio_sha256 in sound_by_audio]
        sounds = [sound_by_audio[clip.audio_sha256] for clip in clips]
        files = [shown_path(clip.path, settings.dataset_dir) for clip in clips]
        copies = _copies(files, [encoded_fingerprint for _, encoded_fingerprint in sounds])
        likelihoods = _likelihoods(settings, context, clips, cache) if with_likelihood else {}
        voices = _judge_voices(clips, results)
        spoof_scores = results.get(_SPOOF, {})
        measurements = []
        for index, clip in enumerate(clips):
            words = context.tokenizer.read(clip.text, clip.language).words
            nats, evidence = likelihoods.get(index, (None, None))
            measurements.append(
                ClipMeasurements(
                    name=files[index],
                    num_letters=sum(map(str.isalnum, words)),
                    sound=SoundFacts(**sounds[index][0]),
                    nats_per_code=nats,
                    text_evidence=evidence,
                    copy_of=copies.get(index, ""),
                    voice_finding=voices.findings.get(index, ""),
                    voice_likeness=voices.likeness.get(index),
                    spoof_score=spoof_scores.get(clip.audio_sha256),
                )
            )
        return measurements, voices.notes
    finally:
        # Added last and model by model, so that the file does not depend on the order of computing.
        for name, values in results.items():
            for sha256, value in values.items():
                if cache.get(f"{models[name].key}|{sha256}") is None:
                    cache.put(f"{models[name].key}|{sha256}", value)
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

    models = {_BASE_ENCODER: WaveformModel(f"voice|{_base_hash(settings, context)}", embed)}
    if settings.speaker_model:
        path = Path(settings.speaker_model)
        speaker = OutsideModel(_SPEAKER, path)
        models[_SPEAKER] = WaveformModel(
            f"voice|{sha256_of(path)[:16]}", lambda waveform: _pack(speaker.embedding(waveform))
        )
    if settings.spoof_model:
        path = Path(settings.spoof_model)
        spoof = OutsideModel(_SPOOF, path)
        models[_SPOOF] = WaveformModel(f"spoof-{sha256_of(path)[:16]}", spoof.spoof_score)
    return models


def _listen(clips: Sequence[Clip], models: Models, cache: Facts, results: Results) -> dict[str, Sound]:
    """Decodes recordings with missing figures, and adds the models' results to `results`. Returns
    SHA-256 -> sound for all recordings that can be decoded."""

    def add_results(sha256: str, sound: Sound, waveform: torch.Tensor | None = None) -> bool:
        """Adds the cached results of a recording, and computes the others from its waveform. Returns
        False if one is missing and there is no waveform."""
        sound_facts = SoundFacts(**sound[0])
        has_voice = is_speech(sound_facts) and sound_facts.spoken_seconds >= _MIN_VOICE_SECONDS
        for name in (name for name in models if has_voice or name == _SPOOF):
            result = cache.get(f"{models[name].key}|{sha256}")
            if result is None:
                if waveform is None:
                    return False
                result = models[name].measure(waveform)
            results[name][sha256] = result
        return True

    def decode(clip: Clip) -> tuple[Sound, torch.Tensor]:
        rate = facts(clip.path).rate
        samples = read(clip.path, rate)
        sound = cache.get(f"sound|{clip.audio_sha256}") or _measure_sound(samples.numpy(), rate)
        return sound, resample(samples, rate, SPEAKER_RATE)

    sounds = {clip.audio_sha256: cache.get(f"sound|{clip.audio_sha256}") for clip in clips}
    incomplete = [
        clip
        for clip in clips
        if not (sound := sounds[clip.audio_sha256]) or not add_results(clip.audio_sha256, sound)
    ]
    clips_with_progress = with_progress(incomplete, len(incomplete), "Sound")
    with ThreadPoolExecutor() as pool:  # decoding and FFTs release the GIL
        decodings = ((clip, pool.submit(decode, clip)) for clip in clips_with_progress)
        for clip, decoding in lookahead(decodings, os.cpu_count() or 1):
            try:
                sound, waveform = decoding.result()
            except (AudioError, OSError) as error:
                log.warning("%s can no longer be read and is skipped: %s", clip.name, error)
                sounds[clip.audio_sha256] = None
                continue
            sounds[clip.audio_sha256] = sound
            cache.put(f"sound|{clip.audio_sha256}", sound)
            add_results(clip.audio_sha256, sound, waveform)
    return {sha256: sound for sha256, sound in sounds.items() if sound}


def _measure_sound(samples: np.ndarray, rate: int) -> Sound:
    sound_facts = measure(samples, rate)
    first = round(sound_facts.lead_seconds * rate)
    last = len(samples) - round(sound_facts.tail_seconds * rate)
    bits = fingerprint(samples[first:last], rate).astype(np.uint32).tobytes()
    rounded = {name: round(value, 5) for name, value in asdict(sound_facts).items()}
    return [rounded, base64.b64encode(bits).decode()]


def _copies(files: Sequence[str], encoded_fingerprints: Sequence[str]) -> dict[int, str]:
    """Index of a copy -> file of its original."""
    fingerprints = [np.frombuffer(base64.b64decode(encoded), np.uint32) for encoded in encoded_fingerprints]
    original_of_copy: dict[int, int] = {}
    for first, second, _ in find_copies(fingerprints):
        original_of_copy.setdefault(second, original_of_copy.get(first, first))
    return {copy: files[original] for copy, original in original_of_copy.items()}


# Likelihood


def _base_hash(settings: TrainSettings, context: RunContext) -> str:
    path = context.base / "model.pth"
    return sha256_of(path, kept_in=settings.cache_dir)[:16]


def _likelihoods(
    settings: TrainSettings, context: RunContext, clips: Sequence[Clip], cache: Facts
) -> dict[int, tuple[float, float]]:
    """Index of a clip -> its result of `likelihood`."""
    base, device = _base_hash(settings, context), context.device.value
    other_texts = _other_texts(clips)
    keys = []
    for clip, texts in zip(clips, other_texts, strict=True):
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
        dataset_indices = {clip.name: index for index, clip in enumerate(context.data.clips)}
        for number in with_progress(missing, len(missing), "Likelihood"):
            index = dataset_indices[clips[number].name]
            if features_cache.present([index]):
                result = likelihood(
                    gpt,
                    features_cache.codes(index),
                    features_cache.mel(index),
                    clips[number].tokens,
                    other_texts[number],
                )
                cache.put(keys[number], [round(figure, 4) for figure in result])
        seconds_taken = time.monotonic() - started
        log.info("Likelihood: %d clips in %.1f s. The results are cached.", len(missing), seconds_taken)
    return {number: scores for number, key in enumerate(keys) if (scores := cache.get(key))}


@torch.inference_mode()
def likelihood(
    gpt: GPT, codes: np.ndarray, mel: np.ndarray, tokens: tuple[int, ...], other_texts: list[tuple[int, ...]]
) -> tuple[float, float]:
    """Scores one clip by the base's GPT, teacher-forced in one padded pass. Works in all languages
    of the base, without a recogniser. Unlikely codes indicate a poor recording or an unusual way of
    speaking; codes that are equally likely with another clip's text indicate a wrong text.

    Args:
        gpt: The base's GPT, in evaluation mode.
        codes: `[n]`, of the whole clip; codes beyond the model's positions are ignored.
        mel: The conditioning mel `[80, frames]` of the clip itself.
        tokens: The tokens of its text.
        other_texts: The tokens of other texts.

    Returns:
        (the mean negative log-likelihood of a code given its text, in nats; the gain in nats per
        code of its text over the best of the other texts).
    """
    device = gpt.mel_head.weight.device
    latents = gpt.conditioning_latents(torch.from_numpy(np.array(mel, np.float32)).to(device)[None])
    targets = torch.from_numpy(np.array(codes[: gpt.shape.max_codes], np.int64)).to(device)
    own_score, *other_scores = (
        float(total) / len(targets)
        for total in log_likelihoods(gpt, latents, [tokens, *other_texts], targets, stopped=False)
    )
    return -own_score, own_score - max(other_scores, default=own_score)


def _other_texts(clips: Sequence[Clip]) -> list[list[tuple[int, ...]]]:
    """For each clip, different texts of other clips with similar length."""
    texts = sorted({clip.tokens for clip in clips}, key=lambda tokens: (len(tokens), tokens))
    positions = {tokens: position for position, tokens in enumerate(texts)}
    other_texts = []
    for clip in clips:
        position = positions[clip.tokens]
        longer = range(position + 1, position + 1 + _NUM_OTHER_TEXTS)
        shorter = range(position - 1, position - 1 - _NUM_OTHER_TEXTS, -1)
        neighbours = [texts[near] for near in (*longer, *shorter) if 0 <= near < len(texts)]
        other_texts.append(neighbours[:_NUM_OTHER_TEXTS])
    return other_texts


# Voices


def _judge_voices(clips: Sequence[Clip], results: Mapping[str, Mapping[str, str]]) -> _VoiceJudgement:
    judgement = _VoiceJudgement({}, {}, [])
    with_voice = [index for index, clip in enumerate(clips) if clip.audio_sha256 in results[_BASE_ENCODER]]
    for speaker in sorted({clips[index].speaker for index in with_voice}):
        speaker_clips = [index for index in with_voice if clips[index].speaker == speaker]
        for model in (name for name in results if name != _SPOOF):
            packed = [results[model][clips[index].audio_sha256] for index in speaker_clips]
            groups = group_voices([_unpack(embedding) for embedding in packed])
            for index, likeness in zip(speaker_clips, groups.likeness, strict=True):
                judgement.likeness.setdefault(index, likeness)
            for position in groups.others:
                likeness = groups.likeness[position]
                finding = f"It sounds like another person than most clips, by {model} ({likeness:.2f})."
                judgement.findings.setdefault(speaker_clips[position], finding)
            if groups.has_two_people:
                judgement.notes.append(
                    f"The {len(speaker_clips)} clips of {speaker!r} sound like two people by {model} "
                    f"(separation {groups.separation:.2f}): {len(groups.others)} of them differ "
                    "from the others. Name each speaker separately, or leave them out."
                )
    return judgement


def _pack(embedding: np.ndarray) -> str:
    return base64.b64encode(embedding.astype(np.float16).tobytes()).decode()


def _unpack(packed: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed), np.float16).astype(np.float32)
