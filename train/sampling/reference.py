"""The recording that a run speaks from, the person's best clips joined, and the text of samples.

    samples/reference.wav     spoken from by every sample, by the base and every other candidate of
                              the evaluation, and by the exported and the served voice
    samples/reference.json    its clips and its checksum

It is made once, by the base's own speaker encoder, and kept for the whole run. Clips whose text is
spoken, or that speech is compared with, are not in it. `train.sampling.run_speakers` chooses the
recordings of further speakers in the same way.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from pydantic import TypeAdapter, ValidationError

from machine.storage.checksums import fault_of
from machine.storage.files import Written, write_json
from train.dataset.dataset import Clip, Dataset
from train.run_context import RunContext
from train.settings import TrainSettings
from xtts import audio, encoding
from xtts.audio import SPEAKER_RATE, VOCODER_RATE, AudioError
from xtts.inference.defaults import ConditioningParams
from xtts.joined_reference import for_conditioning, without_silent_ends
from xtts.model.loading import read_tensors
from xtts.model.vocoder import load_speaker_encoder
from xtts.text.markup import STYLE_MARK
from xtts.voices.run_folder import RunFolder

log = logging.getLogger("train")

# The clips to compare the voice with: enough for a mean, at half a second of work each, and at most
# half of the person's.
MAX_COMPARED, MIN_COMPARED = 8, 2
# The most clips in a recording, and the most that they are chosen from.
MAX_CLIPS, MAX_HEARD = 10, 60
_MIN_SECONDS = 1.5
# A sentence of this length shows a voice well, and takes little time to speak.
SENTENCE_SECONDS = (3.0, 8.0)
# A clip is clipped if more than this share of its samples is within 1 % of its peak.
_CLIPPED_SHARE = 0.001

# From `[samples]` at 24,000 Hz to a unit vector.
Embed = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class SampleReference:
    """The recording whose voice a sample speaks with, and the text that it says. speaker: whose
    voice it is, as the dataset names them."""

    path: Path
    text: str
    language: str
    speaker: str


@dataclass(frozen=True)
class ReferenceRecord:
    """The content of reference.json. clips: hashes of the joined clips, the best first."""

    clips: tuple[str, ...]
    written: Written


def reference_path(run: RunFolder) -> Path:
    """The recording of a run."""
    return run.samples / "reference.wav"


def kept_reference(settings: TrainSettings, context: RunContext, run: RunFolder) -> SampleReference:
    """The run's recording, which is made unless it exists, and the text that a sample says. Raises
    AudioError, DiskFull, WriteError."""
    path = reference_path(run)
    record = _record(path)
    reference = speaking_from(settings, context.data, path)
    clips = reference_clips(context.data, reference.speaker)
    if record is None or not {clip.sha256 for clip in clips}.issuperset(record.clips):
        embed = base_embedder(context)
        chosen, recording = best_recording(clips, embed, context.config.conditioning)
        written = encoding.write_wav(path, recording)
        record = ReferenceRecord(tuple(clip.sha256 for clip in chosen), written)
        write_json(path.with_suffix(".json"), asdict(record))
        seconds = len(recording) / VOCODER_RATE
        log.info("Reference: %d clips of the person, %.1f s (%s)", len(chosen), seconds, path)
    return reference


def speaking_from(settings: TrainSettings, data: Dataset, recording: Path) -> SampleReference:
    """A recording with the sample's text, SAMPLE_TEXT or the transcript of a clip that is held
    out."""
    clip = spoken_clip(data)
    return SampleReference(recording, settings.sample_text or clip.text, clip.language, clip.speaker)


def spoken_clip(dataset: Dataset) -> Clip:
    """The clip whose transcript samples say: a validation clip, else a training clip, chosen by
    content.

    No step trained on a validation clip, so the person and the sample are comparable. Only if all
    of them are too short, it is a training clip.
    """
    shortest, longest = SENTENCE_SECONDS
    clips = _usual(dataset, dataset.validation)
    if all(clip.seconds < shortest for clip in clips):
        clips = _usual(dataset, (*dataset.validation, *dataset.train))
    enough = [clip for clip in clips if clip.seconds >= shortest]
    fitting = [clip for clip in enough if clip.seconds <= longest]
    longest_clip = max(clips, key=lambda clip: clip.seconds)
    return min(fitting or enough or [longest_clip], key=lambda clip: clip.sha256)


def _usual(dataset: Dataset, indices: Sequence[int]) -> list[Clip]:
    """Those in the person's usual way of speaking, if any: a request must name a style."""
    clips = [dataset.clips[index] for index in indices]
    return [clip for clip in clips if STYLE_MARK not in clip.speaker] or clips


def compared_clips(data: Dataset, speaker: str) -> list[Clip]:
    """The clips that a person's speech is compared with: that of the sample's text, then validation
    clips. Their texts are spoken, so none is in the reference."""
    held_out, spoken = set(data.validation), spoken_clip(data)
    ranked = [
        (clip is not spoken, index not in held_out, clip.sha256, clip)
        for index, clip in enumerate(data.clips)
        if clip.speaker == speaker
    ]
    count = min(MAX_COMPARED, max(MIN_COMPARED, len(ranked) // 2), len(ranked) - 1)
    return [clip for *_, clip in sorted(ranked, key=lambda rank: rank[:3])[:count]]


def reference_clips(data: Dataset, speaker: str) -> list[Clip]:
    """The clips from which a person's recording is made: those without the sound and the text of a
    compared clip. All of them, if there are no others."""
    compared = compared_clips(data, speaker)
    clips = [clip for clip in data.clips if clip.speaker == speaker]
    sounds, texts = ({getattr(clip, name) for clip in compared} for name in ("audio_sha256", "text"))
    others = [clip for clip in clips if clip.audio_sha256 not in sounds]
    return [clip for clip in others if clip.text not in texts] or others or clips


def best_recording(
    clips: Sequence[Clip], embed: Embed, params: ConditioningParams
) -> tuple[list[Clip], np.ndarray]:
    """The best clips, joined for conditioning: `[samples]` at 24,000 Hz. Clips that cannot be read
    are skipped; raises AudioError if there is no other."""
    heard, error = list[tuple[Clip, np.ndarray]](), None
    for clip in sorted(clips, key=lambda clip: clip.sha256)[:MAX_HEARD]:
        try:
            heard.append((clip, audio.read(clip.path, VOCODER_RATE).numpy()))
        except AudioError as fault:
            error = fault
    if not heard:
        raise error or AudioError("The person has no clips.")
    seconds = max(params.total_seconds, params.speaker_seconds)
    best = best_of([sound for _, sound in heard], embed, seconds)
    recording = for_conditioning([heard[index][1] for index in best], VOCODER_RATE, params)
    return [heard[index][0] for index in best], recording[: int(seconds * VOCODER_RATE)]


def best_of(recordings: Sequence[np.ndarray], embed: Embed, seconds: float) -> list[int]:
    """The indices of the recordings `[samples]` that are most like all others of the person, until
    they fill `seconds`. Clipped ones, and less than 1.5 s of speech, only if there are no others.
    """
    spoken = [without_silent_ends(recording, VOCODER_RATE) for recording in recordings]
    long = [n for n, sound in enumerate(spoken) if len(sound) >= _MIN_SECONDS * VOCODER_RATE]
    if not long:
        return [max(range(len(recordings)), key=lambda n: len(recordings[n]))]
    clean = [n for n in long if not _is_clipped(recordings[n])] or long
    vectors = np.stack([embed(spoken[n]) for n in clean])
    # Leave-one-out: the cosine to the mean of the others.
    others = vectors.sum(0) - vectors if len(clean) > 1 else vectors
    likeness = (vectors * others).sum(1) / np.linalg.norm(others, axis=1).clip(min=1e-6)
    best, room = list[int](), seconds * VOCODER_RATE
    for place in np.argsort(-likeness, kind="stable")[:MAX_CLIPS]:
        if room <= 0:
            break
        best.append(clean[place])
        room -= len(spoken[clean[place]])
    return best


def base_embedder(context: RunContext) -> Embed:
    """The speaker encoder of a run's base, on the CPU."""
    with torch.random.fork_rng(devices=[]):  # a resumed run does not draw
        encoder = load_speaker_encoder(read_tensors(context.base / "model.pth"), context.config)

    @torch.inference_mode()
    def embed(samples: np.ndarray) -> np.ndarray:
        sound = audio.resample(torch.from_numpy(samples), VOCODER_RATE, SPEAKER_RATE)
        vector: np.ndarray = encoder(sound[None]).flatten().numpy()
        return vector

    return embed


def _is_clipped(samples: np.ndarray) -> bool:
    levels = np.abs(samples)
    return bool(np.mean(levels >= 0.99 * levels.max()) > _CLIPPED_SHARE)


def joined_clips(recording: Path) -> tuple[str, ...]:
    """As `ReferenceRecord.clips`; empty without an intact record."""
    record = _record(recording)
    return record.clips if record else ()


def _record(path: Path) -> ReferenceRecord | None:
    """The record of a recording that is intact; None without one."""
    try:
        record = TypeAdapter(ReferenceRecord).validate_json(path.with_suffix(".json").read_bytes())
        intact = fault_of({path.name: record.written}, path.parent) is None
    except (OSError, ValidationError):
        return None
    return record if intact else None
