"""The clips of a cut dataset: lists, plays, corrects and drops them.

`corrections.json` holds a person's corrections separately from the cut. Their keys are the
recording, the position and the SHA-256 of the clip's audio, so a correction also applies to a later
cut that contains the same clip. Corrections without a clip stay in the file and are reported.
`clips/metadata.csv`, which training reads, is derived from both and can be written again at any
time.
"""

import contextlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from api.errors import APIError
from api.shared_folder import now
from extras.studio import dataset_schemas as schemas
from extras.studio.datasets.dataset_store import UploadedDataset, changing_dataset
from machine.storage.checksums import FileStamp, stamp_of
from machine.storage.files import read_json, replace_file, write_json

MAX_CLIPS = 100
_MAX_UNPLACED = 200
_MAX_INDICES = 4
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CLIP_NAME = re.compile(r"[\w-]{1,100}")
# The maximum of reported unspoken sentences; with a wrong text, these could be a whole book.
_MAX_UNHEARD = 500


@dataclass(frozen=True)
class IndexedClip:
    """A clip.

    Attributes:
        key: Identifies it in a later cut: its recording, position and SHA-256.
        worst: How odd it is.
        text: The text of the cut.
        offset: The position of its line in `clips.jsonl`, in bytes.
    """

    name: str
    key: str
    worst: float
    text: str
    seconds: float
    offset: int


@dataclass(frozen=True)
class Correction:
    """A person's correction of a clip.

    Attributes:
        text: The corrected text; None keeps that of the cut.
        name: The name of the clip when it was corrected, reported if no clip matches any more.
        was: Its text then.
        at: The time of the correction.
    """

    text: str | None
    dropped: bool
    name: str
    was: str
    at: str


class _CorrectedClip(NamedTuple):
    """A clip as training gets it."""

    text: str
    has_new_text: bool
    is_dropped: bool


def index(dataset: UploadedDataset) -> Mapping[str, IndexedClip]:
    """The clips of its cut by name, in the order of the recordings; empty before the first cut."""
    try:
        return _index(stamp_of(dataset.clips / "clips.jsonl"))
    except OSError:
        return {}


@lru_cache(_MAX_INDICES)
def _index(stamp: FileStamp) -> Mapping[str, IndexedClip]:
    clips, offset = {}, 0
    with Path(stamp.path).open("rb") as file:
        for line in file:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                row = json.loads(line)
                key = f"{row['recording']} {row['start']:.2f} {row['sha256']}"
                if _CLIP_NAME.fullmatch(name := row["name"]):
                    clips[name] = IndexedClip(
                        name, key, float(row["worst"]), str(row["text"]), float(row["seconds"]), offset
                    )
            offset += len(line)
    return clips


def listing(dataset: UploadedDataset, order: schemas.ClipOrder, offset: int, limit: int) -> schemas.ClipPage:
    """A page of clips, as /v1/datasets returns it."""
    clips = list(index(dataset).values())
    if order == "worst":
        # A stable sort: ties keep the order of the recordings, so all pages agree.
        clips.sort(key=lambda clip: -clip.worst)
    corrections = read_corrections(dataset)
    page = clips[offset : offset + limit]
    rows = [_row(dataset, clip, corrections.get(clip.key)) for clip in page]
    return schemas.ClipPage(clips=rows, total=len(clips), offset=offset)


def find(dataset: UploadedDataset, name: str) -> IndexedClip:
    """The clip of this name. Raises APIError (404)."""
    clip = index(dataset).get(name)
    if clip is None:
        raise APIError(404, "no_clip", "The dataset has no clip with this name.", param="clip")
    return clip


def sound_path(dataset: UploadedDataset, name: str) -> Path:
    """The audio file of a clip. Raises APIError (404)."""
    path = dataset.clips / "wavs" / f"{find(dataset, name).name}.wav"
    if not path.is_file():
        raise APIError(404, "no_clip", "The audio of that clip is missing.", param="clip")
    return path


def correct(
    dataset: UploadedDataset, name: str, changed: Mapping[str, Any], sha256: str | None
) -> schemas.ClipRow:
    """Changes `text` or `dropped` of a clip and updates metadata.csv; the clip as in `listing`.

    Args:
        changed: The new values.
        sha256: The hash of the audio that was played; it differs if the dataset was cut again.

    Raises APIError: there is no such clip, it has changed, or the correction cannot be written.
    """
    with changing_dataset(dataset):
        clip = find(dataset, name)
        if sha256 is not None and clip.key.rpartition(" ")[2] != sha256:
            refusal = "The dataset was cut again, so this is another clip now. Load the clips again."
            raise APIError(409, "other_clip", refusal, param="sha256")
        corrections = read_corrections(dataset)
        before = corrections.pop(clip.key, None)
        text = changed.get("text", before and before.text)
        if text is not None:
            text = _as_field(text)
            text = None if text == _as_field(clip.text) else text
        dropped = changed.get("dropped", bool(before and before.dropped))
        if text is not None or dropped:
            corrections[clip.key] = Correction(text, dropped, name, clip.text, now())
        value = {key: asdict(correction) for key, correction in corrections.items()}
        write_json(dataset.folder / "corrections.json", {"corrections": value})
        write_metadata(dataset)
        return _row(dataset, clip, corrections.get(clip.key))


def summary(dataset: UploadedDataset) -> dict[str, Any]:
    """These fields of `DatasetDetails`: the counts, a line for each recording, and corrections
    whose clip is missing."""
    clips, corrections = index(dataset), read_corrections(dataset)
    counts = schemas.ClipCounts(
        total=len(clips), kept=0, dropped=0, without_text=0, corrected=0, kept_seconds=0.0
    )
    for clip in clips.values():
        corrected = _corrected(clip, corrections.pop(clip.key, None))
        counts.corrected += corrected.has_new_text
        counts.dropped += corrected.is_dropped
        counts.without_text += not corrected.is_dropped and not corrected.text
        if corrected.text and not corrected.is_dropped:
            counts.kept += 1
            counts.kept_seconds += clip.seconds
    counts.kept_seconds = round(counts.kept_seconds, 3)
    unplaced = list(corrections.values())[:_MAX_UNPLACED]
    return {"clips": counts, "unplaced": unplaced, **_account(dataset)}


def write_metadata(dataset: UploadedDataset) -> None:
    """Applies the corrections to metadata.csv. Call it inside `changing_dataset`. Raises APIError,
    WriteError and OSError."""
    corrections, rows = read_corrections(dataset), []
    for clip in index(dataset).values():
        corrected = _corrected(clip, corrections.get(clip.key))
        text = corrected.text if corrected.has_new_text else _as_field(corrected.text)
        # Training refuses a whole transcript if one text is empty.
        if text and not corrected.is_dropped:
            rows.append(f"{clip.name}|{text}\n")
    path, content = dataset.clips / "metadata.csv", "".join(rows).encode()
    if not path.parent.is_dir():
        return
    if not path.is_file() or path.read_bytes() != content:
        replace_file(path, lambda file: file.write(content))


def _row(dataset: UploadedDataset, clip: IndexedClip, correction: Correction | None) -> schemas.ClipRow:
    row: dict[str, Any] = {}
    path = dataset.clips / "clips.jsonl"
    with contextlib.suppress(OSError, ValueError), path.open("rb") as file:
        file.seek(clip.offset)
        row = json.loads(file.readline())
    corrected = _corrected(clip, correction)
    return schemas.ClipRow(
        name=clip.name,
        recording=row.get("recording", ""),
        start=row.get("start", 0.0),
        seconds=clip.seconds,
        text=corrected.text,
        cut_text=clip.text,
        corrected=corrected.has_new_text,
        dropped=corrected.is_dropped,
        why=row.get("why", ""),
        levels=row.get("levels", []),
        sha256=row.get("sha256", ""),
        sound=f"/v1/datasets/{dataset.id}/clips/{clip.name}.wav",
    )


def _corrected(clip: IndexedClip, correction: Correction | None) -> _CorrectedClip:
    if correction is None:
        return _CorrectedClip(clip.text, has_new_text=False, is_dropped=False)
    text = clip.text if correction.text is None else correction.text
    return _CorrectedClip(text, correction.text is not None, correction.dropped)


def read_corrections(dataset: UploadedDataset) -> dict[str, Correction]:
    """The corrections by the clip's key. Raises APIError (507) if they cannot be read."""
    path = dataset.folder / "corrections.json"
    try:
        corrections = json.loads(path.read_text(encoding="utf-8"))["corrections"]
        return {key: Correction(**fields) for key, fields in corrections.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError) as error:
        # Not read as empty: the next change would overwrite them.
        text = "corrections.json of this dataset cannot be read. Repair or remove it."
        raise APIError(507, "not_kept", text) from error


def _account(dataset: UploadedDataset) -> dict[str, Any]:
    """The report of `train cut`: each second of a recording is in a clip or has a reason."""
    account = read_json(dataset.clips / "cut.json")
    with contextlib.suppress(ValueError, TypeError, KeyError):
        unheard = account["unheard_sentences"]
        return {
            "account": [
                schemas.AccountOfRecording.model_validate(recording) for recording in account["recordings"]
            ],
            "unheard": [str(sentence) for sentence in unheard[:_MAX_UNHEARD]],
            "num_unheard": len(unheard),
            "speech_by": str(account["speech_by"]),
        }
    return {"account": [], "unheard": [], "num_unheard": 0, "speech_by": ""}


def _as_field(text: str) -> str:
    """A text as a field of metadata.csv: in one line, and without the separator `|`."""
    return " ".join(_CONTROL_CHARACTERS.sub(" ", text.replace("|", ",")).split())
