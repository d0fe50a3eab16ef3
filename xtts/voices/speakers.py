"""The named speakers of a voice: several people, or several styles of one person.

    FOLDER/speakers/speakers.json    names, files and hashes; the first speaker is the default
    FOLDER/speakers/1.wav            a recording of the first speaker; in an ONNX voice the latents
                                     `1.safetensors`
    FOLDER/speakers/2_decoder.*      a decoder trained for the second speaker
                                     (`xtts.voices.learned_decoder`); the first uses the voice's
    FOLDER/speakers/base_decoder.safetensors
                                     in an exported voice, whose model.pth has the first speaker's
                                     decoder: the base's, for speakers without a decoder

FOLDER is a run, an exported voice or an ONNX voice. A name is that of a person (`anna`) or of a
person's style (`anna:whisper`). Importing this module does not import torch.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from machine.storage.checksums import fault_of
from machine.storage.files import Written, write_json
from machine.text import first_line, plain_name
from xtts.text.markup import STYLE_MARK

log = logging.getLogger(__name__)

FOLDER = "speakers"
FILE = "speakers.json"
BASE_DECODER = "base_decoder.safetensors"
# An alias of the first speaker.
OWN = "default"


@dataclass(frozen=True)
class Speaker:
    """One row of speakers.json. clips: the clips from which the recording was made."""

    name: str
    file: str
    written: Written
    clips: Sequence[str] = ()


def write(folder: Path, speakers: Sequence[Speaker]) -> Written:
    """Writes speakers.json into `folder`/speakers, after the files that it names."""
    return write_json(folder / FOLDER / FILE, {"speakers": [asdict(speaker) for speaker in speakers]})


def read(folder: Path) -> dict[str, Path]:
    """Name -> file of each speaker of a voice, the default first; as `rows`."""
    return {speaker.name: folder / FOLDER / speaker.file for speaker in rows(folder)}


def rows(folder: Path) -> list[Speaker]:
    """The speakers of a voice, verified, the default first. Empty if the files are missing or
    cannot be used, which is logged; the voice still works without them."""
    path = folder / FOLDER / FILE
    try:
        speakers = TypeAdapter(dict[str, list[Speaker]]).validate_json(path.read_bytes())["speakers"]
        fault = fault_of({speaker.file: speaker.written for speaker in speakers}, path.parent)
    except FileNotFoundError:
        return []
    except (OSError, ValidationError, KeyError) as error:
        fault = f"{first_line(error)}."
    if fault:
        log.warning("%s cannot be used and is ignored: %s", path, fault)
        return []
    return speakers


def decoder_of(recording: Path) -> Path:
    """The path of the tensors of a speaker's decoder, which may not exist."""
    return recording.with_name(f"{recording.stem}_decoder.safetensors")


def write_all(
    speakers: Mapping[str, Path], to: Path, suffix: str, make: Callable[[Path, Path], Written]
) -> dict[str, Written]:
    """Writes the speakers of one voice into the folder `to` of another. Returns the written files.

    make: converts a speaker's file to a file with this suffix.
    """
    if not speakers:
        return {}
    (to / FOLDER).mkdir()
    written_speakers = [
        Speaker(name, (file := f"{number}{suffix}"), make(path, to / FOLDER / file))
        for number, (name, path) in enumerate(speakers.items(), start=1)
    ]
    listed = write(to, written_speakers)
    return {f"{FOLDER}/{speaker.file}": speaker.written for speaker in written_speakers} | {
        f"{FOLDER}/{FILE}": listed
    }


def find(name: str, own_name: str, names: Iterable[str]) -> str | None:
    """The speaker of `names` that is called `name`, in any case. `default`, or a style alone,
    refers to the person of `own_name`. Returns "" for `own_name` itself, None for an unknown speaker."""
    person, mark, style = plain(name).partition(STYLE_MARK)
    if person in ("", OWN):
        person = plain(own_name).partition(STYLE_MARK)[0]
    full = f"{person}{mark}{style}"
    if full in (plain(own_name), OWN):
        return ""
    return next((other for other in names if plain(other) == full), None)


def plain(name: str) -> str:
    """As `machine.text.plain_name`, without spaces around the colon before a style."""
    words = plain_name(name)
    return STYLE_MARK.join(part.strip() for part in words.split(STYLE_MARK))
