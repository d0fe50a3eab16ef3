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
LIST_FILE = "speakers.json"
BASE_DECODER = "base_decoder.safetensors"
# An alias of the first speaker.
DEFAULT_NAME = "default"


@dataclass(frozen=True)
class Speaker:
    """An entry of speakers.json. clips: the clips from which the recording was made."""

    name: str
    file: str
    written: Written
    clips: Sequence[str] = ()


def write(folder: Path, speakers: Sequence[Speaker]) -> Written:
    """Writes speakers.json into `folder`/speakers, after the files that it names."""
    return write_json(folder / FOLDER / LIST_FILE, {"speakers": [asdict(speaker) for speaker in speakers]})


def read(folder: Path) -> dict[str, Path]:
    """As `read_speakers`: name -> file of each speaker of a voice."""
    return {speaker.name: folder / FOLDER / speaker.file for speaker in read_speakers(folder)}


def read_speakers(folder: Path) -> list[Speaker]:
    """The speakers of a voice, verified, the default first. Empty if the files are missing or
    cannot be used, which is logged; the voice still works without them."""
    path = folder / FOLDER / LIST_FILE
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
    """The path of the tensors of a speaker's decoder. recording: the speaker's file."""
    return recording.with_name(f"{recording.stem}_decoder.safetensors")


def copy_speakers(
    speakers: Mapping[str, Path], to: Path, suffix: str, convert: Callable[[Path, Path], Written]
) -> dict[str, Written]:
    """Writes the speakers of one voice into the folder `to` of another. Returns the written files.

    convert: reads a speaker's file and writes one with this suffix.
    """
    if not speakers:
        return {}
    (to / FOLDER).mkdir()
    copies = [
        Speaker(name, (file := f"{number}{suffix}"), convert(path, to / FOLDER / file))
        for number, (name, path) in enumerate(speakers.items(), start=1)
    ]
    written = {f"{FOLDER}/{speaker.file}": speaker.written for speaker in copies}
    return written | {f"{FOLDER}/{LIST_FILE}": write(to, copies)}


def find_speaker(name: str, own_name: str, names: Iterable[str]) -> str | None:
    """The speaker of `names` that is called `name`, in any case. `default`, or a style alone,
    refers to the person of `own_name`. Returns "" for `own_name` itself, None for an unknown speaker."""
    person, mark, style = normalized_name(name).partition(STYLE_MARK)
    own = normalized_name(own_name)
    if person in ("", DEFAULT_NAME):
        person = own.partition(STYLE_MARK)[0]
    full_name = f"{person}{mark}{style}"
    if full_name in (own, DEFAULT_NAME):
        return ""
    return next((speaker for speaker in names if normalized_name(speaker) == full_name), None)


def normalized_name(name: str) -> str:
    """As `machine.text.plain_name`, without spaces around the colon before a style."""
    return STYLE_MARK.join(part.strip() for part in plain_name(name).split(STYLE_MARK))
