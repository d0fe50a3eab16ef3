"""The folder of an ONNX voice: graphs, tables, vocabulary, and onnx.json with hashes.

    gpt.onnx                       one step after a past of any length (weights in *.data)
    gpt_int8.onnx gpt_int4.onnx    the same in fewer bits
    vocoder.onnx                   steps -> samples
    source.onnx                    latents at the steps -> steps, for a vocoder with an oscillator
    conditioning.onnx speaker.onnx a recording's mels -> conditioning latents, speaker embedding
    embeddings.npy                 text, text positions, codes, code positions: [rows, width]
    config.json vocab.json         as in the exported model folder
    mel_stats.npy                  the 80 band scales of the conditioning's mel
    voice.safetensors              the latents of its recording, if it has one

Reading it needs neither torch nor the package `onnx`.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from machine import commands
from machine.errors import SotaqueError
from machine.storage.checksums import fault_of
from machine.storage.files import Written, write_json

SCHEMA = 1
MANIFEST_FILE = "onnx.json"
GPT_FILES = {"fp32": "gpt.onnx", "int8": "gpt_int8.onnx", "int4": "gpt_int4.onnx"}
VOCODER_FILE, SOURCE_FILE = "vocoder.onnx", "source.onnx"
CONDITIONING_FILE, SPEAKER_FILE = "conditioning.onnx", "speaker.onnx"
EMBEDDINGS_FILE, MEL_STATS_FILE, LATENTS_FILE = "embeddings.npy", "mel_stats.npy", "voice.safetensors"


class OnnxError(SotaqueError):
    """A folder is not a complete ONNX voice, or a graph cannot be used; the message says what to
    do."""


@dataclass(frozen=True)
class OnnxVoice:
    """The content of onnx.json.

    Attributes:
        kinds: The precisions of the GPT, of GPT_FILES.
        weights: The SHA-256 of the weights from which the GPT was exported.
    """

    files: dict[str, Written]
    kinds: tuple[str, ...]
    opset: int
    weights: str
    licence: str
    made_at: str
    schema: int = SCHEMA


def is_export(folder: Path) -> bool:
    """Whether the folder has an onnx.json."""
    return (folder / MANIFEST_FILE).is_file()


def write(folder: Path, voice: OnnxVoice) -> None:
    """Writes onnx.json; call it after writing the files that it names. Raises DiskFull or
    WriteError."""
    write_json(folder / MANIFEST_FILE, asdict(voice))


def read(folder: Path) -> OnnxVoice:
    """Reads onnx.json. Raises OnnxError if it is missing or damaged."""
    path = folder / MANIFEST_FILE
    try:
        voice = TypeAdapter(OnnxVoice).validate_json(path.read_bytes())
    except OSError as error:
        raise OnnxError(
            f"{path} cannot be read ({error.strerror}). Create the folder with: "
            f"{commands.program('train export --onnx --checkpoint')} CHECKPOINT --to DIR"
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise OnnxError(f"{path} is damaged: {where} {first['msg']}. Export it again.") from error
    if not voice.kinds or not GPT_FILES.keys() >= set(voice.kinds):
        raise OnnxError(
            f"{path} is damaged: kinds are {list(voice.kinds)}, but allowed are {', '.join(GPT_FILES)}. "
            "Export it again."
        )
    if voice.schema != SCHEMA:
        raise OnnxError(f"{path} has schema {voice.schema}; this version reads {SCHEMA}.")
    return voice


def verify(folder: Path, kind: str | None = None) -> OnnxVoice:
    """As `read`, but compares every file with its hash; with `kind`, not those of the GPT in other
    kinds, which are up to 1.5 GB. Raises OnnxError."""
    voice = read(folder)
    needed = {
        VOCODER_FILE,
        EMBEDDINGS_FILE,
        "config.json",
        "vocab.json",
        *(GPT_FILES[k] for k in voice.kinds),
    }
    if missing := needed - voice.files.keys():
        raise OnnxError(f"{folder / MANIFEST_FILE} does not name {min(missing)}. Export it again.")
    skipped = {path for other_kind, path in GPT_FILES.items() if kind not in (None, other_kind)}
    files = {
        name: written for name, written in voice.files.items() if name.removesuffix(".data") not in skipped
    }
    if fault := fault_of(files, folder):
        raise OnnxError(f"{fault} Export the voice again.")
    return voice
