"""Keeps a recording of each person and style of a dataset as a named speaker of the run.

A clip's speaker is `anna`, or `anna:whisper` in a dataset with styles. Each becomes a speaker of
the run (`xtts.voices.speakers`), which a request can name.
"""

import logging
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path

from machine.storage.files import Written, make_folder, replace_file
from train.dataset.dataset import Clip, Dataset
from train.run_context import RunContext
from train.sampling.reference import MAX_EMBEDDED_CLIPS, SampleReference, base_embedder, best_recording
from xtts import encoding
from xtts.voices import speakers
from xtts.voices.run_folder import RunFolder
from xtts.voices.speakers import Speaker

log = logging.getLogger("train")


def keep_speakers(run: RunFolder, context: RunContext, reference: SampleReference) -> None:
    """Writes `speakers/` of a run if its dataset has several speakers or styles. The reference's
    speaker comes first, with the reference. A recording of the same clips is kept.

    An error costs the named speakers, not the run.
    """
    first = reference.speaker
    clips_by_name = clips_by_speaker(context.data, first)
    if len(clips_by_name) < 2:
        return
    embedder = cache(lambda: base_embedder(context))  # loaded for the first missing recording

    def write_recording(name: str, path: Path) -> Written:
        if name == first:
            recording = reference.path.read_bytes()
            return replace_file(path, lambda file: file.write(recording))
        params = context.config.conditioning
        return encoding.write_wav(path, best_recording(clips_by_name[name], embedder(), params)[1])

    try:
        earlier = {row.name: row for row in speakers.read_speakers(run.folder)}
        rows = [
            _speaker_of(run, earlier.get(name), f"{number}.wav", name, clips, partial(write_recording, name))
            for number, (name, clips) in enumerate(clips_by_name.items(), start=1)
        ]
        speakers.write(run.folder, rows)
    except Exception as error:
        log.warning("The speakers of the dataset are not kept by name: %s", error)
        return
    log.info("Speakers: %s. The samples are spoken as %s.", ", ".join(clips_by_name), first)


def clips_by_speaker(data: Dataset, first: str) -> dict[str, list[Clip]]:
    """The training clips by speaker: `first`, then the others by name."""
    clips = [data.clips[index] for index in data.train]
    names = sorted({clip.speaker for clip in clips}, key=lambda name: (name != first, name))
    return {name: [clip for clip in clips if clip.speaker == name] for name in names}


def _speaker_of(
    run: RunFolder,
    earlier: Speaker | None,
    file: str,
    name: str,
    clips: Sequence[Clip],
    write: Callable[[Path], Written],
) -> Speaker:
    """The speaker's row. Writes their recording unless one of the same clips exists."""
    identity = [clip.sha256 for clip in sorted(clips, key=lambda clip: clip.sha256)[:MAX_EMBEDDED_CLIPS]]
    if earlier and earlier.file == file and list(earlier.clips) == identity:
        return earlier
    make_folder(run.folder / speakers.FOLDER)
    return Speaker(name, file, write(run.folder / speakers.FOLDER / file), identity)
