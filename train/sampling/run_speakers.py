"""Keeps a recording of each person and style of a dataset as a named speaker of the run.

A clip's speaker is `anna`, or `anna:whisper` in a dataset with styles. Each becomes a speaker of
the run (`xtts.voices.speakers`), which a request can name.
"""

import logging
from collections.abc import Sequence

import numpy as np

from machine.storage.atomic import Written
from machine.storage.hashes import sha256_of
from train.dataset.dataset import Clip, Dataset
from xtts import audio, wav
from xtts.audio import CODE_RATE
from xtts.joined_reference import for_conditioning, without_silent_ends
from xtts.model.config import ModelConfig
from xtts.speech_span import frame_levels
from xtts.voices import speakers
from xtts.voices.run_folder import RunFolder
from xtts.voices.speakers import Speaker

log = logging.getLogger("train")

# The most clips in a recording, and the most that they are chosen from.
MOST_CLIPS, MOST_HEARD = 10, 60
_LEAST_SECONDS = 1.5


def keep_speakers(run: RunFolder, data: Dataset, config: ModelConfig, first: str) -> None:
    """Writes `speakers/` of a run whose dataset has several speakers or styles. `first`, the
    speaker of the reference clip, comes first. A recording of the same clips is kept.

    An error costs the named speakers, not the run.
    """
    by_name = clips_by_speaker(data, first)
    if len(by_name) < 2:
        return
    try:
        known = {one.name: one for one in speakers.rows(run.folder)}
        rows = [
            _kept(run, known.get(name), number, name, clips, config)
            for number, (name, clips) in enumerate(by_name.items(), start=1)
        ]
        speakers.write(run.folder, rows)
    except Exception as error:
        log.warning("The speakers of the dataset are not kept by name: %s", error)
        return
    log.info("Speakers: %s. The samples are spoken as %s.", ", ".join(by_name), first)


def clips_by_speaker(data: Dataset, first: str) -> dict[str, list[Clip]]:
    """The training clips by speaker: `first`, then the others by name."""
    clips = [data.clips[index] for index in data.train]
    names = sorted({clip.speaker for clip in clips}, key=lambda name: (name != first, name))
    return {name: [clip for clip in clips if clip.speaker == name] for name in names}


def _kept(
    run: RunFolder,
    known: Speaker | None,
    number: int,
    name: str,
    clips: Sequence[Clip],
    config: ModelConfig,
) -> Speaker:
    """The speaker's row. Writes their recording unless one of the same clips exists."""
    heard = sorted(clips, key=lambda clip: clip.sha256)[:MOST_HEARD]
    file = f"{number}.wav"
    identity = [clip.sha256 for clip in heard]
    if known and known.file == file and list(known.clips) == identity:
        return known
    chosen = best_clips([audio.read(clip.path, CODE_RATE).numpy() for clip in heard])
    recording = for_conditioning(chosen, CODE_RATE, config.conditioning)
    path = run.folder / speakers.FOLDER / file
    path.parent.mkdir(parents=True, exist_ok=True)
    wav.write(path, recording, CODE_RATE)
    return Speaker(name, file, Written(sha256_of(path), path.stat().st_size), identity)


def best_clips(recordings: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The cleanest recordings `[samples]` with at least 1.5 s of speech, by the level of loud
    frames over quiet ones; if all are shorter, the longest."""
    spoken = [without_silent_ends(one, CODE_RATE) for one in recordings]
    long = [one for one, kept in zip(recordings, spoken, strict=True)
            if len(kept) >= _LEAST_SECONDS * CODE_RATE]  # fmt: skip
    if not long:
        return [max(recordings, key=len)]
    return sorted(long, key=_loud_over_quiet, reverse=True)[:MOST_CLIPS]


def _loud_over_quiet(recording: np.ndarray) -> float:
    quiet, loud = np.percentile(frame_levels(recording, CODE_RATE), (10, 95))
    return float(loud - quiet)
