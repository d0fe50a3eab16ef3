"""Makes the recording that a run speaks from, and chooses the text that its samples say.

    samples/reference.wav     spoken from by every sample, by the base and every other candidate of
                              the evaluation, and by the exported and the served voice
    samples/reference.json    its clips and its checksum

The recording joins the person's best clips. It is made once, with the base's own speaker encoder, and
kept for the whole run. It has no clip that speech is compared with, and none with a text that is spoken.
`train.sampling.run_speakers` chooses the recordings of further speakers in the same way.
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
from xtts.joined_reference import for_conditioning, trim_silence
from xtts.model.loading import read_tensors
from xtts.model.vocoder import load_speaker_encoder
from xtts.text.markup import STYLE_MARK
from xtts.voices.run_folder import RunFolder

log = logging.getLogger("train")

# The clips to compare the voice with: enough for a mean, at half a second of work each, and at most
# half of the person's.
MAX_COMPARED, MIN_COMPARED = 8, 2
# The maximum number of clips in a recording, and of those that they are chosen from.
MAX_JOINED_CLIPS, MAX_EMBEDDED_CLIPS = 10, 60
_MIN_SPEECH_SECONDS = 1.5
# The length of a sample's clip: it shows a voice well, and takes little time to speak.
SENTENCE_SECONDS = (3.0, 8.0)
# A clip is clipped if more than this share of its samples is within 1 % of its peak.
_CLIPPED_SHARE = 0.001

# From `[samples]` at 24,000 Hz to a unit vector.
Embed = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class SampleReference:
    """The recording that a sample is spoken from, and the text that it says. speaker: the person's
    name in the dataset."""

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
    """The file of a run's recording."""
    return run.samples / "reference.wav"


def reference_of_run(settings: TrainSettings, context: RunContext, run: RunFolder) -> SampleReference:
    """The run's recording, and the text that a sample says. Makes the recording unless it exists.
    Raises AudioError, DiskFull, WriteError."""
    path = reference_path(run)
    record = _read_record(path)
    reference = with_sample_text(settings, context.data, path)
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


def with_sample_text(settings: TrainSettings, data: Dataset, recording: Path) -> SampleReference:
    """A recording with the sample's text: SAMPLE_TEXT, or the transcript of `sample_text_clip`."""
    clip = sample_text_clip(data)
    return SampleReference(recording, settings.sample_text or clip.text, clip.language, clip.speaker)


def sample_text_clip(dataset: Dataset) -> Clip:
    """The clip with the text of samples, chosen by content: a validation clip or, if all of these are
    too short, a training clip.

    No step trained on a validation clip, so the person and the sample are comparable.
    """
    min_seconds, max_seconds = SENTENCE_SECONDS
    clips = _in_usual_style(dataset, dataset.validation)
    if all(clip.seconds < min_seconds for clip in clips):
        clips = _in_usual_style(dataset, (*dataset.validation, *dataset.train))
    long_enough = [clip for clip in clips if clip.seconds >= min_seconds]
    fitting = [clip for clip in long_enough if clip.seconds <= max_seconds]
    longest_clip = max(clips, key=lambda clip: clip.seconds)
    return min(fitting or long_enough or [longest_clip], key=lambda clip: clip.sha256)


def _in_usual_style(dataset: Dataset, indices: Sequence[int]) -> list[Clip]:
    """The clips of these indices in the person's usual style; all, if there is none. Only a request
    that names a style speaks in it."""
    clips = [dataset.clips[index] for index in indices]
    return [clip for clip in clips if STYLE_MARK not in clip.speaker] or clips


def compared_clips(data: Dataset, speaker: str) -> list[Clip]:
    """The clips that a person's speech is compared with: that of the sample's text, then validation
    clips. Their texts are spoken, so none is in the reference."""
    held_out, text_clip = set(data.validation), sample_text_clip(data)
    ranked = [
        (clip is not text_clip, index not in held_out, clip.sha256, clip)
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
    readable, error = list[tuple[Clip, np.ndarray]](), None
    for clip in sorted(clips, key=lambda clip: clip.sha256)[:MAX_EMBEDDED_CLIPS]:
        try:
            readable.append((clip, audio.read(clip.path, VOCODER_RATE).numpy()))
        except AudioError as fault:
            error = fault
    if not readable:
        raise error or AudioError("The person has no clips.")
    seconds = max(params.total_seconds, params.speaker_seconds)
    best = best_indices([sound for _, sound in readable], embed, seconds)
    recording = for_conditioning([readable[index][1] for index in best], VOCODER_RATE, params)
    return [readable[index][0] for index in best], recording[: int(seconds * VOCODER_RATE)]


def best_indices(recordings: Sequence[np.ndarray], embed: Embed, seconds: float) -> list[int]:
    """The indices of the recordings `[samples]` that are most like all others of the person, until
    they fill `seconds`. Clipped and very short ones count only if there are no others."""
    speech = [trim_silence(recording, VOCODER_RATE) for recording in recordings]
    long = [n for n, sound in enumerate(speech) if len(sound) >= _MIN_SPEECH_SECONDS * VOCODER_RATE]
    if not long:
        return [max(range(len(recordings)), key=lambda n: len(recordings[n]))]
    clean = [n for n in long if not _is_clipped(recordings[n])] or long
    vectors = np.stack([embed(speech[n]) for n in clean])
    # Leave-one-out: the cosine to the mean of the others.
    others = vectors.sum(0) - vectors if len(clean) > 1 else vectors
    likeness = (vectors * others).sum(1) / np.linalg.norm(others, axis=1).clip(min=1e-6)
    best, samples_left = list[int](), seconds * VOCODER_RATE
    for rank in np.argsort(-likeness, kind="stable")[:MAX_JOINED_CLIPS]:
        if samples_left <= 0:
            break
        best.append(clean[rank])
        samples_left -= len(speech[clean[rank]])
    return best


def base_embedder(context: RunContext) -> Embed:
    """The speaker encoder of a run's base, on the CPU."""
    with torch.random.fork_rng(devices=[]):  # a resumed run may not load it, and must draw the same
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


def joined_clip_hashes(recording: Path) -> tuple[str, ...]:
    """As `ReferenceRecord.clips`; empty without an intact record."""
    record = _read_record(recording)
    return record.clips if record else ()


def _read_record(path: Path) -> ReferenceRecord | None:
    """The record of a recording that is intact; None without one."""
    try:
        record = TypeAdapter(ReferenceRecord).validate_json(path.with_suffix(".json").read_bytes())
        intact = fault_of({path.name: record.written}, path.parent) is None
    except (OSError, ValidationError):
        return None
    return record if intact else None
