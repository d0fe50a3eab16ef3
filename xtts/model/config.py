"""ModelConfig: reads config.json and vocab.json of a model folder.

Coqui's `XttsConfig.load_json` drops unknown keys, and its classes hard-code the sizes of DVAE,
vocoder and speaker encoder. So the differences of our small models are under one key, `"sotaque"`;
without that key every size is XTTS-v2's.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from machine.errors import SotaqueError
from xtts.inference.defaults import ConditioningParams, SamplingParams
from xtts.model.shapes import DVAEShape, GPTShape, SpeakerEncoderShape, VocoderShape
from xtts.text.normalization.registry import COQUI, NEWEST, NORMALIZERS

T = TypeVar("T")
# The files that distinguish an exported voice, in Coqui's format and in ONNX, from a base model.
EXPORT_FILES = ("bundle.json", "onnx.json")
# The longest piece by front-end, for models whose config.json does not say it, such as the embedded
# voice's first folders and exports. Other models use the language's limit of characters.
PIECE_TOKENS = {"cmu_phones": 36}
CPML = "CPML-1.0.0 (non-commercial, model and outputs)"


def short_name(licence: str) -> str:
    """The name of a licence, without the training data, which follows a semicolon."""
    return licence.partition(";")[0]


class ConfigError(SotaqueError):
    """config.json or vocab.json cannot be used; the message names file, key and value."""


@dataclass(frozen=True)
class TrainingAdvice:
    """What the base model recommends for settings that are `auto`; None = no advice. freeze: names
    of weights with *, separated by commas."""

    num_epochs: int | None = None
    learning_rate: float | None = None
    batch_seconds: float | None = None
    freeze: str | None = None
    ema_decay: float | None = None


@dataclass(frozen=True)
class Extension:
    """A language that `train extend` added to a model. like: the language whose tag its own began
    as; first_id, num_ids: the ids of its tag and of its new pieces; replacements: how signs and
    abbreviations are read (`xtts.text.replacements`); learned: whether these are the weights of a
    run in it, as `train export` writes them."""

    language: str
    like: str
    first_id: int
    num_ids: int
    replacements: tuple[tuple[str, str], ...] = ()
    learned: bool = False


@dataclass(frozen=True, kw_only=True)
class _Own:
    """The key "sotaque" of config.json; an unknown name in it is an error, so that none is
    ignored."""

    schema: int = 1
    vocoder: VocoderShape = field(default_factory=VocoderShape)
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
class ModelConfig(_Own):
    """The configuration of a model.

    Attributes:
        piece_tokens: The most text ids of one piece (`xtts.text.tokenizer`); None for as many as
            the model has positions.
        alignment_heads: Layer and number of each attention head that follows the text; () if none
            does, None if not measured yet (`xtts.inference.alignment.heads`).
        normalizer: The rules that read its texts (`xtts.text.normalization.registry`).
        extensions: The languages that were added to it, in order.
    """

    gpt: GPTShape
    dvae: DVAEShape
    decoding: SamplingParams
    conditioning: ConditioningParams
    languages: tuple[str, ...]
    normalizer: str

    @property
    def unlearned(self) -> tuple[Extension, ...]:
        """The languages that were added to it and that it has not learned."""
        return tuple(one for one in self.extensions if not one.learned)

    @property
    def speaks_in_coqui(self) -> bool:
        """Whether Coqui's own classes, which hard-code these sizes, can hold this model."""
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
        config = _read_json(folder / "config.json")
        args = config.get("model_args") or {}
        own = _validated(_Own, config.get("sotaque") or {}, folder / "config.json", "sotaque")
        gpt = _gpt_shape(args, folder)
        _check_heads(own.alignment_heads, gpt, folder)
        values: dict[str, Any] = vars(own) | {
            "gpt": gpt,
            "dvae": own.dvae or DVAEShape(num_codes=gpt.audio_ids - 2),
            "decoding": _picked(SamplingParams, config, folder),
            "conditioning": _conditioning(config),
            "languages": tuple(config.get("languages") or ("en",)),
            "piece_tokens": own.piece_tokens or PIECE_TOKENS.get(own.text_frontend),
            "normalizer": _normalizer(folder, own.normalizer),
        }
        return ModelConfig(**values)


def naming_normalizer(config: dict[str, Any], normalizer: str) -> dict[str, Any]:
    """The content of a config.json with the name of the normaliser."""
    return config | {"sotaque": (config.get("sotaque") or {}) | {"normalizer": normalizer}}


def _normalizer(folder: Path, configured: str | None) -> str:
    """The normaliser of a model: the one that its config.json names. An export without a name is
    from the time when only Coqui's existed. A base model without a name gets the newest rules: it
    learned from words, whichever rules wrote them, and the newest rules are right more often."""
    if configured is None:
        exported = any((folder / name).is_file() for name in EXPORT_FILES)
        return COQUI if exported else NEWEST
    if configured not in NORMALIZERS:
        raise ConfigError(
            f'{folder / "config.json"}, key "sotaque": normalizer is {configured!r}; this version '
            f"knows {' and '.join(NORMALIZERS)}. Use the version that created the voice."
        )
    return configured


def _check_heads(heads: tuple[tuple[int, int], ...] | None, gpt: GPTShape, folder: Path) -> None:
    for layer, head in heads or ():
        if not (0 <= layer < gpt.layers and 0 <= head < gpt.heads):
            raise ConfigError(
                f'{folder / "config.json"}, key "sotaque": alignment_heads names head {head} of '
                f"layer {layer}; this model has {gpt.heads} heads in {gpt.layers} layers. Remove "
                "alignment_heads; they are measured again."
            )


def _gpt_shape(args: dict[str, Any], folder: Path) -> GPTShape:
    count, start, stop = _vocabulary_ids(folder / "vocab.json")
    # XTTS-v1 has no perceiver; its prompt layout is another model.
    if args.get("gpt_use_perceiver_resampler") is False:
        raise ConfigError(
            f"{folder / 'config.json'} says gpt_use_perceiver_resampler=false: that is XTTS-v1. "
            "Sotaque trains XTTS-v2; use a v2 folder."
        )
    names = {
        "layers": "gpt_layers", "width": "gpt_n_model_channels", "heads": "gpt_n_heads",
        "audio_ids": "gpt_num_audio_tokens", "audio_start": "gpt_start_audio_token",
        "audio_stop": "gpt_stop_audio_token", "max_text_tokens": "gpt_max_text_tokens",
        "max_audio_tokens": "gpt_max_audio_tokens",
    }  # fmt: skip
    values = {ours: args[coquis] for ours, coquis in names.items() if coquis in args} | {
        "text_ids": max(count, int(args.get("gpt_number_text_tokens") or 0)),
        "text_start": start,
        "text_stop": stop,
    }
    return _validated(GPTShape, values, folder / "config.json", "model_args")


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


def _conditioning(config: dict[str, Any]) -> ConditioningParams:
    defaults = ConditioningParams()
    return ConditioningParams(
        total_seconds=float(config.get("gpt_cond_len") or defaults.total_seconds),
        chunk_seconds=float(config.get("gpt_cond_chunk_len") or defaults.chunk_seconds),
        speaker_seconds=float(config.get("max_ref_len") or defaults.speaker_seconds),
    )


def _picked(kind: type[T], config: dict[str, Any], folder: Path) -> T:
    names = getattr(kind, "__dataclass_fields__", {})
    values = {name: config[name] for name in names if config.get(name) is not None}
    return _validated(kind, values, folder / "config.json", "the decoding defaults")


def _validated(kind: type[T], values: dict[str, Any], path: Path, where: str) -> T:
    unknown = sorted(set(values) - set(getattr(kind, "__dataclass_fields__", {})))
    if unknown:
        raise ConfigError(f'{path}, key "{where}": unknown name {unknown[0]!r}; remove it.')
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            f'{path}, key "{where}": {name} is {first["input"]!r}; {first["msg"]}.'
        ) from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"{path} is missing. A model folder in Coqui's layout holds it."
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path} cannot be read as JSON ({error}). Copy the file again."
        ) from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} holds a JSON {type(content).__name__}, not an object.")
    return content
