"""Keeps, replaces and deletes the takes of a dataset that is read aloud; skips sentences.

    DATASETS_DIR/<id>/takes.json       the state of each sentence, kept or skipped, by its number
    DATASETS_DIR/<id>/clips/           wavs/ and metadata.csv for training, like those of a cut

Keeping a take writes its audio first, then takes.json, then the files derived from that:
clips.jsonl and metadata.csv. A kill in between loses no acknowledged take, and training never reads
a name without audio. A new take of a sentence has another file name; the previous file is deleted
last.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from api.errors import APIError
from api.shared_folder import now
from extras.studio.datasets import clips, uploads
from extras.studio.datasets.dataset_store import Datasets, UploadedDataset, changing_dataset
from extras.studio.datasets.prompts import Prompts, Source, is_read_aloud, read_prompts
from extras.studio.take_schemas import CheckedTake
from machine.storage.files import crash_point, make_folder, replace_file, write_json

State = Literal["kept", "skipped"]


@dataclass(frozen=True)
class Take:
    """The take of a sentence, or the fact that it is skipped, with empty fields.

    Attributes:
        at: When it was kept or skipped.
        name: The name of its clip.
        findings: The kind and the sentence of each.
    """

    state: State
    at: str
    name: str = ""
    sha256: str = ""
    seconds: float = 0.0
    findings: tuple[tuple[str, str], ...] = ()
    levels: tuple[int, ...] = ()


def make_prompts(dataset: UploadedDataset, source: Source, texts: tuple[str, ...]) -> Prompts:
    """Gives sentences to an empty dataset, which is then read aloud, or replaces them before the
    first take. Raises APIError."""
    with changing_dataset(dataset):
        if uploads.recordings(dataset) or (not is_read_aloud(dataset) and dataset.clips.exists()):
            text = "The dataset has recordings to cut. Create another one for sentences that are read aloud."
            raise APIError(409, "has_recordings", text)
        if any(take.state == "kept" for take in read_takes(dataset).values()):
            text = (
                "Some of its sentences are already recorded, and takes belong to sentences. Create "
                "another dataset."
            )
            raise APIError(409, "has_takes", text)
        (dataset.folder / "takes.json").unlink(missing_ok=True)
        write_json(dataset.folder / "prompts.json", {"source": source, "texts": list(texts)})
    return Prompts(source, texts)


def read_takes(dataset: UploadedDataset) -> dict[int, Take]:
    """Takes by the number of the sentence. Raises APIError (507) if they cannot be read."""
    path = dataset.folder / "takes.json"
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["takes"]
        return {int(number): _take_from(row) for number, row in rows.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        # Not read as empty: the next take would overwrite them.
        text = "takes.json of this dataset cannot be read. Repair or remove it."
        raise APIError(507, "not_kept", text) from error


def _take_from(row: dict[str, Any]) -> Take:
    findings = tuple((str(kind), str(sentence)) for kind, sentence in row.pop("findings"))
    return Take(**row | {"findings": findings, "levels": tuple(row["levels"])})


def keep(datasets: Datasets, dataset: UploadedDataset, number: int, wav: bytes, check: CheckedTake) -> Take:
    """Keeps a take as the clip of its sentence and replaces the previous one.

    Args:
        wav: A WAV file, mono and 16-bit, trimmed.
        check: The findings of the check.

    Raises:
        APIError: The dataset was deleted, or there is not enough space.
    """
    sha256 = hashlib.sha256(wav).hexdigest()
    findings = tuple((finding.kind, finding.sentence) for finding in check.findings)
    take = Take(
        "kept", now(), f"{number:04d}-{sha256[:8]}", sha256, check.seconds, findings, tuple(check.levels)
    )
    with changing_dataset(dataset):
        read_prompts(dataset).text(number)
        uploads.check_room(datasets, len(wav))
        takes = read_takes(dataset)
        make_folder(dataset.clips / "wavs")
        sound_path = dataset.clips / "wavs" / f"{take.name}.wav"
        replace_file(sound_path, lambda file: file.write(wav))
        crash_point("take.sound")
        _write_takes(dataset, {**takes, number: take})
    return take


def skip(dataset: UploadedDataset, number: int) -> Take:
    """Skips a sentence. Raises APIError (404, or 409 if it has a kept take)."""
    with changing_dataset(dataset):
        read_prompts(dataset).text(number)
        takes = read_takes(dataset)
        if number in takes and takes[number].state == "kept":
            text = f"Sentence {number} is already recorded. Delete its take to skip it."
            raise APIError(409, "has_take", text, param="number")
        take = Take("skipped", now())
        _write_takes(dataset, {**takes, number: take})
    return take


def forget(dataset: UploadedDataset, number: int) -> None:
    """Deletes the take of a sentence, or its mark as skipped, so the sentence is open again. Raises
    APIError (404)."""
    with changing_dataset(dataset):
        read_prompts(dataset).text(number)
        takes = read_takes(dataset)
        if takes.pop(number, None) is None:
            text = f"Sentence {number} is neither recorded nor skipped."
            raise APIError(404, "no_take", text, param="number")
        _write_takes(dataset, takes)


def repair(dataset: UploadedDataset) -> None:
    """Updates the files for training from takes.json after a kill. Call it inside `changing_dataset`.
    Raises like `keep`."""
    if is_read_aloud(dataset) and dataset.clips.is_dir():
        _write_clips(dataset, read_takes(dataset))


def _write_takes(dataset: UploadedDataset, takes: Mapping[int, Take]) -> None:
    value = {str(number): asdict(take) for number, take in sorted(takes.items())}
    write_json(dataset.folder / "takes.json", {"takes": value})
    crash_point("take.named")
    _write_clips(dataset, takes)


def _write_clips(dataset: UploadedDataset, takes: Mapping[int, Take]) -> None:
    """Writes the list of clips like that of a cut, and deletes audio that no take uses."""
    if not dataset.clips.is_dir():
        return
    prompts = read_prompts(dataset)
    rows = [
        _clip_row(number, prompts.text(number), take) for number, take in sorted(takes.items()) if take.name
    ]
    content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    replace_file(dataset.clips / "clips.jsonl", lambda file: file.write(content))
    clips.write_metadata(dataset)
    crash_point("take.published")
    named = {f"{take.name}.wav" for take in takes.values()}
    for path in (dataset.clips / "wavs").glob("*.wav"):
        if path.name not in named:
            path.unlink(missing_ok=True)


def _clip_row(number: int, text: str, take: Take) -> dict[str, object]:
    kinds = [kind.replace("_", " ") for kind, _ in take.findings]
    return {
        "name": take.name,
        "recording": f"sentence-{number}",
        "start": 0.0,
        "seconds": take.seconds,
        "text": text,
        "worst": float(len(kinds)),
        "why": ", ".join(kinds),
        "levels": list(take.levels),
        "sha256": take.sha256,
    }
