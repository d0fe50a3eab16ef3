"""Transcripts of clips that have none, by a recogniser that the user has: a Whisper model.

Each clip is heard by itself. What a recogniser invents where it understands nothing, the same words
again and again or a note such as `[Music]`, is no transcript: that clip is left out.
"""

import hashlib
import re
import zlib
from dataclasses import replace
from pathlib import Path

import torch

from train.cutting.cutter import CutRecording, CutResult
from train.cutting.journal import HeardJournal
from train.cutting.planning import UNSURE, Stretch, account
from train.cutting.recordings import LISTENING_RATE, CuttingError, stretches
from train.progress import Progress
from xtts.audio import resample
from xtts.evaluation.recogniser import Recogniser, RecogniserError, opened

# Whisper's own limit for words that go round (`compression_ratio_threshold`): bytes over zlib's.
_MOST_REPEATED = 2.4
# Nobody speaks as fast; a language without spaces says more with a character, so it is far below.
_MOST_CHARACTERS_A_SECOND = 35.0
_NOTE = re.compile(r"\[[^\]]*\]|\([^)]*\)|<[^>]*>|\*[^*]*\*|♪[^♪]*♪?")


def open_recogniser(folder: Path, language: str) -> tuple[Recogniser, str]:
    """The recogniser, and the SHA-256 of its files, which its transcripts depend on.

    Raises CuttingError.
    """
    try:
        found = opened(str(folder), language, torch.get_num_threads())
        digest = hashlib.sha256()
        for path in sorted(one for one in folder.iterdir() if one.is_file()):
            with path.open("rb") as file:
                digest.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    except (RecogniserError, OSError) as error:
        raise CuttingError(f"--recogniser: {error}") from error
    return found, digest.hexdigest()


def transcribed(result: CutResult, recogniser: Recogniser, journal: HeardJournal) -> CutResult:
    """The clips with what was heard in each; those of which nothing was understood are left out."""
    count = sum(len(one.clips) for one in result.recordings)
    with Progress("Transcribing", count, "clips") as progress:
        done = [_transcribed_one(one, recogniser, journal, progress) for one in result.recordings]
    return CutResult(done, result.unheard)


def transcript(heard: str, seconds: float) -> str | None:
    """What was heard as a transcript; None where it cannot be what is said. Pure."""
    text = " ".join(_NOTE.sub(" ", heard).split())
    if not any(letter.isalnum() for letter in text):
        return None
    encoded = text.encode()
    repeated = len(encoded) / len(zlib.compress(encoded)) > _MOST_REPEATED
    return None if repeated or len(text) > _MOST_CHARACTERS_A_SECOND * seconds else text


def _transcribed_one(
    one: CutRecording, recogniser: Recogniser, journal: HeardJournal, progress: Progress
) -> CutRecording:
    recording = one.recording
    kept, left = list[Stretch](), list(one.left)
    for place, samples in stretches(recording, one.spans()):
        clip = one.clips[place]
        key = f"{recording.name}|clip {clip.first} to {clip.last}"
        known = journal.get(key)
        if known is None:
            wave = resample(torch.from_numpy(samples), recording.rate, LISTENING_RATE).numpy()
            # As words are kept: text, start, end, certainty.
            known = [(recogniser.hear([wave])[0], clip.first / 100, clip.last / 100, None)]
            journal.put(key, known)
        heard = known[0][0]
        text = transcript(heard, (clip.last - clip.first) / 100)
        if text is None:
            left.append(replace(clip, text=heard, reason=UNSURE))
        else:
            kept.append(replace(clip, text=text))
        progress.add()
    rows = account(kept, left, one.profile, recording.rate, recording.frames)
    return replace(one, clips=kept, left=left, rows=rows)
