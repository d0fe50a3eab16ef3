"""ModelConfig: reads config.json and vocab.json of a model folder.

Coqui's classes hard-code the sizes of DVAE, vocoder and speaker encoder, and its
`XttsConfig.load_json` drops unknown keys. So the differences of our small models are under one key,
`"sotaque"`; without it, all sizes are XTTS-v2's.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from machine.errors import SotaqueError
from xtts.inference.defaults import ConditioningParams, SamplingParams
from xtts.model.shapes import AnyVocoderShape, DVAEShape, GPTShape, SpeakerEncoderShape, VocoderShape
from xtts.text.normalization.registry import COQUI, NEWEST, NORMALIZERS

_Json = dict[str, Any]
T = TypeVar("T")
# The files that distinguish an exported voice, in Coqui's format and in ONNX, from a base model.
EXPORT_FILES = ("bundle.json", "onnx.json")
# The maximum length of a piece by front-end, for models without `piece_tokens` in config.json, such
# as the first versions of the embedded voice. Other models use the language's limit of characters.
PIECE_TOKENS = {"cmu_phones": 36}
# Coqui's names of our fields, where they differ.
COQUI_NAMES = {
    "layers": "gpt_layers",
    "width": "gpt_n_model_channels",
    "heads": "gpt_n_heads",
    "text_ids": "gpt_number_text_tokens",
    "text_start": "gpt_start_text_token",
    "text_stop": "gpt_stop_text_token",
    "audio_ids": "gpt_num_audio_tokens",
    "audio_start": "gpt_start_audio_token",
    "audio_stop": "gpt_stop_audio_token",
    "max_text_tokens": "gpt_max_text_tokens",
    "max_audio_tokens": "gpt_max_audio_tokens",
    "total_seconds": "gpt_cond_len",
    "chunk_seconds": "gpt_cond_chunk_len",
    "speaker_seconds": "max_ref_len",
}
CPML = "CPML-1.0.0 (non-commercial, model and outputs)"


def short_name(licence: str) -> str:
    """The name of a licence: its text up to the first semicolon. The training data follows it."""
    return licence.partition(";")[0]


class ConfigError(SotaqueError):
    """config.json or vocab.json cannot be used; the message names file, key and value."""


@dataclass(frozen=True)
class DecoderSteps:
    """The number of steps of a person's decoder: `per_minute * minutes ** exponent`, and no more than
    `most`. The defaults suit XTTS-v2's rate (`xtts.workers.decoder_schedule`)."""

    per_minute: float = 70.0
    exponent: float = 0.6
    most: int = 400


@dataclass(frozen=True)
class TrainingAdvice:
    """The base model's recommendations for settings that are `auto`; None means none.

    Attributes:
        freeze: Names of weights with *, separated by commas.
        learn_decoder: "off" if a decoder that learns a person would sound worse.
        decoder_rate: The learning rate of such a decoder.
        decoder_steps: Its steps by the minutes of clips.
    """

    num_epochs: int | None = None
    learning_rate: float | None = None
    batch_seconds: float | None = None
    freeze: str | None = None
    ema_decay: float | None = None
    learn_decoder: str | None = None
    decoder_rate: float | None = None
    decoder_steps: DecoderSteps | None = None


@dataclass(frozen=True)
class Extension:
    """A language that `train extend` added to a model.

    Attributes:
        like: The old language with the tag that initialised the new tag.
        first_id, num_ids: The ids of the tag and the new tokens.
        replacements: Words for signs and abbreviations (`xtts.text.pronunciations`).
        learned: Whether the model was trained in the language; `train export` records it.
    """

    language: str
    like: str
    first_id: int
    num_ids: int
    replacements: tuple[tuple[str, str], ...] = ()
    learned: bool = False


@dataclass(frozen=True, kw_only=True)
class _SotaqueConfig:
    """The key "sotaque" of config.json. Unknown names in it are an error."""

    schema: int = 1
    vocoder: AnyVocoderShape = field(default_factory=VocoderShape)
    speaker_encoder: SpeakerEncoderShape = field(default_factory=SpeakerEncoderShape)
    dvae: DVAEShape | None = None
    text_frontend: str = "coqui"
    piece_tokens: int | None = None
    alignment_heads: tuple[tuple[int, int], ...] | None = None
    stop_input_trained: bool = False
    training: TrainingAdvice = field(default_factory=TrainingAdvice)
    normalizer: str | None = None
    licence: str = CPML
    weights: str = "trained"
    extensions: tuple[Extension, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ModelConfig(_SotaqueConfig):
    """The configuration of a model.

    Attributes:
        piece_tokens: The maximum number of text ids in a piece (`xtts.text.tokenizer`); None for
            the number of the model's text positions.
        alignment_heads: Layer and number of each attention head that follows the text; () if none
            does, None if not measured yet (`xtts.inference.alignment.heads`).
        normalizer: The rules that read its texts (`xtts.text.normalization.registry`).
        extensions: The added languages, in order.
    """

    gpt: GPTShape
    dvae: DVAEShape
    decoding: SamplingParams
    conditioning: ConditioningParams
    languages: tuple[str, ...]
    normalizer: str

    @property
    def unlearned(self) -> tuple[Extension, ...]:
        """The added languages that the model was not trained in."""
        return tuple(extension for extension in self.extensions if not extension.learned)

    @property
    def speaks_in_coqui(self) -> bool:
        """Whether Coqui's classes can load this model: it has the sizes that they hard-code."""
        return (
            self.vocoder == VocoderShape()
            and self.speaker_encoder == SpeakerEncoderShape()
            and self.text_frontend == "coqui"
        )

    @staticmethod
    def read(folder: Path) -> "ModelConfig":
        """Reads `folder/config.json` and the ids in `folder/vocab.json`.

        Raises ConfigError naming the file, the key and the value.
        """
        path = folder / "config.json"
        config = _read_json(path)
        sotaque = _validate(_SotaqueConfig, config.get("sotaque") or {}, place := f'{path}, key "sotaque"')
        gpt = _gpt_shape(config.get("model_args") or {}, folder)
        for layer, head in sotaque.alignment_heads or ():
            if not (0 <= layer < gpt.layers and 0 <= head < gpt.heads):
                raise ConfigError(
                    f"{place}: alignment_heads names head {head} of layer {layer}; this model has "
                    f"{gpt.heads} heads in {gpt.layers} layers. Remove alignment_heads, and they "
                    "will be measured again."
                )
        values: _Json = vars(sotaque) | {
            "gpt": gpt,
            "dvae": sotaque.dvae or DVAEShape(num_codes=gpt.audio_ids - 2),
            "decoding": _pick(SamplingParams, config, path),
            "conditioning": _pick(ConditioningParams, config, path),
            "languages": tuple(config.get("languages") or ("en",)),
            "piece_tokens": sotaque.piece_tokens or PIECE_TOKENS.get(sotaque.text_frontend),
            "normalizer": _normalizer(folder, sotaque.normalizer),
        }
        return ModelConfig(**values)


def with_normalizer(config: _Json, normalizer: str) -> _Json:
    """The content of a config.json, with the name of the normaliser."""
    return config | {"sotaque": (config.get("sotaque") or {}) | {"normalizer": normalizer}}


def _normalizer(folder: Path, configured: str | None) -> str:
    """The normaliser that config.json names. Without a name, an export gets Coqui's, which was the
    only one when names were not written, and a base model the newest."""
    if configured is None:
        is_export = any((folder / name).is_file() for name in EXPORT_FILES)
        return COQUI if is_export else NEWEST
    if configured not in NORMALIZERS:
        raise ConfigError(
            f'{folder / "config.json"}, key "sotaque": normalizer is {configured!r}; this version '
            f"knows {' and '.join(NORMALIZERS)}. Use the version that created the voice."
        )
    return configured


def _gpt_shape(args: _Json, folder: Path) -> GPTShape:
    count, start, stop = _vocabulary_ids(folder / "vocab.json")
    # XTTS-v1 lacks the perceiver and has another prompt layout.
    if args.get("gpt_use_perceiver_resampler") is False:
        raise ConfigError(
            f"{folder / 'config.json'} says gpt_use_perceiver_resampler=false: that is XTTS-v1. "
            "Sotaque trains XTTS-v2; use a v2 folder."
        )
    text_ids = max(count, int(args.get("gpt_number_text_tokens") or 0))
    ids = {"text_ids": text_ids, "text_start": start, "text_stop": stop}
    return _pick(GPTShape, args, folder / "config.json", **ids)


def _vocabulary_ids(path: Path) -> tuple[int, int, int]:
    """(number of text ids, START, STOP) of a `tokenizers` file, without loading `tokenizers`."""
    vocabulary = _read_json(path)
    ids: dict[str, int] = dict((vocabulary.get("model") or {}).get("vocab") or {})
    ids.update({token["content"]: token["id"] for token in vocabulary.get("added_tokens") or []})
    for name in ("[START]", "[STOP]"):
        if name not in ids:
            raise ConfigError(
                f"{path} has no token {name}; XTTS needs [START] and [STOP]. "
                "Take the vocab.json that belongs to this model."
            )
    return max(ids.values()) + 1, ids["[START]"], ids["[STOP]"]


def _pick(kind: type[T], content: _Json, path: Path, **others: int) -> T:
    """A `kind` with the values that config.json has for it under Coqui's names, and `others`."""
    names = getattr(kind, "__dataclass_fields__", {})
    values = {name: content.get(COQUI_NAMES.get(name, name)) for name in names} | others
    present = {name: value for name, value in values.items() if value is not None}
    return _validate(kind, present, str(path))


def _validate(kind: type[T], values: _Json, place: str) -> T:
    unknown = sorted(set(values) - set(getattr(kind, "__dataclass_fields__", {})))
    if unknown:
        raise ConfigError(f"{place}: unknown name {unknown[0]!r}; remove it.")
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        name = COQUI_NAMES.get(name, name)
        raise ConfigError(f"{place}: {name} is {first['input']!r}; {first['msg']}.") from error


def _read_json(path: Path) -> _Json:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path} is missing. A model folder in Coqui's layout contains it.") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read as JSON ({error}). Copy the file again.") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} contains a JSON {type(content).__name__}, not an object.")
    return content
