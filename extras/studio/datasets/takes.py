"""The takes of a dataset that is read aloud: kept, replaced, deleted; sentences that are skipped.

    DATASETS_DIR/<id>/takes.json       what became of each sentence: kept or skipped, by its number
    DATASETS_DIR/<id>/clips/           what training reads, as of a cut: wavs/, metadata.csv

A take that is kept is written before it is named: its sound, then takes.json, then what is made
from that and can be made again: clips.jsonl and metadata.csv. A kill in between loses nothing that
was answered, and training never reads a name without a sound. A new take of a sentence is another
file, and the one before goes last.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from api.errors import APIError
from api.shared_folder import now
from extras.studio.datasets import clips, uploads
from extras.studio.datasets.prompts import Prompts, Source, is_read_aloud, read_prompts
from extras.studio.datasets.store import Datasets, UploadedDataset, changing
from extras.studio.take_schemas import CheckedTake
from machine.storage.atomic import crash_point, make_folder, replace_file, write_json

State = Literal["kept", "skipped"]


@dataclass(frozen=True)
class Take:
    """What became of a sentence. name: of its clip; findings: kind and sentence of each; all empty
    where it is skipped."""

    state: State
    at: str
    name: str = ""
    sha256: str = ""
    seconds: float = 0.0
    findings: tuple[tuple[str, str], ...] = ()
    levels: tuple[int, ...] = ()


def make_prompts(dataset: UploadedDataset, source: Source, texts: tuple[str, ...]) -> Prompts:
    """Makes an empty dataset one that is read aloud, or gives it other sentences while there is no
    take. Raises APIError."""
    with changing(dataset):
        if uploads.recordings(dataset) or (not is_read_aloud(dataset) and dataset.clips.exists()):
            text = (
                "The dataset has recordings that are cut. Create another one for sentences that "
                "are read aloud."
            )
            raise APIError(409, "has_recordings", text)
        if any(one.state == "kept" for one in read_takes(dataset).values()):
            text = (
                "Some of its sentences are already recorded, and takes belong to sentences. Create "
                "another dataset."
            )
            raise APIError(409, "has_takes", text)
        (dataset.folder / "takes.json").unlink(missing_ok=True)
        write_json(dataset.folder / "prompts.json", {"source": source, "texts": list(texts)})
    return Prompts(source, texts)


def read_takes(dataset: UploadedDataset) -> dict[int, Take]:
    """By the number of the sentence; none where none was kept or skipped. Raises APIError (507)."""
    path = dataset.folder / "takes.json"
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["takes"]
        return {int(number): _take(row) for number, row in rows.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        # Never taken for none: the next take would be written over them.
        text = "takes.json of this dataset cannot be read. Repair or remove it."
        raise APIError(507, "not_kept", text) from error


def _take(row: dict[str, Any]) -> Take:
    found = tuple((str(kind), str(sentence)) for kind, sentence in row.pop("findings"))
    return Take(**row | {"findings": found, "levels": tuple(row["levels"])})


def keep(
    datasets: Datasets, dataset: UploadedDataset, number: int, wav: bytes, found: CheckedTake
) -> Take:
    """Keeps a take as the clip of its sentence, in the place of one before.

    Args:
        wav: 16 bits and mono, trimmed.
        found: What was found in it.

    Raises:
        APIError: The dataset is deleted by now, or there is no room.
    """
    sha256 = hashlib.sha256(wav).hexdigest()
    findings = tuple((one.kind, one.sentence) for one in found.findings)
    made = Take(
        "kept", now(), f"{number:04d}-{sha256[:8]}", sha256, found.seconds, findings,
        tuple(found.levels),
    )  # fmt: skip
    with changing(dataset):
        read_prompts(dataset).text(number)
        uploads.check_room(datasets, len(wav))
        takes = read_takes(dataset)
        make_folder(dataset.clips / "wavs")
        sound = dataset.clips / "wavs" / f"{made.name}.wav"
        replace_file(sound, lambda file: file.write(wav))
        crash_point("take.sound")
        _write(dataset, {**takes, number: made})
    return made


def skip(dataset: UploadedDataset, number: int) -> Take:
    """Leaves a sentence out. Raises APIError (404, or 409 where a take of it is kept)."""
    with changing(dataset):
        read_prompts(dataset).text(number)
        takes = read_takes(dataset)
        if number in takes and takes[number].state == "kept":
            text = f"Sentence {number} is already recorded. Delete its take to skip it."
            raise APIError(409, "has_take", text, param="number")
        made = Take("skipped", now())
        _write(dataset, {**takes, number: made})
    return made


def forget(dataset: UploadedDataset, number: int) -> None:
    """Deletes the take of a sentence, or that it is skipped: it is to be read again. Raises
    APIError (404)."""
    with changing(dataset):
        read_prompts(dataset).text(number)
        takes = read_takes(dataset)
        if takes.pop(number, None) is None:
            text = f"Sentence {number} is neither recorded nor skipped."
            raise APIError(404, "no_take", text, param="number")
        _write(dataset, takes)


def repair(dataset: UploadedDataset) -> None:
    """Brings what training reads up to the takes after a kill, inside `changing`. Raises as
    `keep`."""
    if is_read_aloud(dataset) and dataset.clips.is_dir():
        _publish(dataset, read_takes(dataset))


def _write(dataset: UploadedDataset, takes: Mapping[int, Take]) -> None:
    value = {str(number): asdict(take) for number, take in sorted(takes.items())}
    write_json(dataset.folder / "takes.json", {"takes": value})
    crash_point("take.named")
    _publish(dataset, takes)


def _publish(dataset: UploadedDataset, takes: Mapping[int, Take]) -> None:
    """Writes the clips as those of a cut, and removes sounds that no take has any more."""
    if not dataset.clips.is_dir():
        return
    texts, kept = read_prompts(dataset), sorted(takes.items())
    rows = [_row(number, texts.text(number), take) for number, take in kept if take.name]
    content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    replace_file(dataset.clips / "clips.jsonl", lambda file: file.write(content))
    clips.write_metadata(dataset)
    crash_point("take.published")
    named = {f"{take.name}.wav" for take in takes.values()}
    for path in (dataset.clips / "wavs").glob("*.wav"):
        if path.name not in named:
            path.unlink(missing_ok=True)


def _row(number: int, text: str, take: Take) -> dict[str, Any]:
    kinds = [kind.replace("_", " ") for kind, _ in take.findings]
    return {
        "name": take.name, "recording": f"sentence-{number}", "start": 0.0,
        "seconds": take.seconds, "text": text, "worst": float(len(kinds)), "why": ", ".join(kinds),
        "levels": list(take.levels), "sha256": take.sha256,
    }  # fmt: skip
