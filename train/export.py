"""`python -m train export`: exports a checkpoint as a voice: Coqui's format, ONNX models, an adapter.

Trained weights come from the checkpoint, all others from the base model under their published
names, so that Coqui's `Xtts.load_checkpoint(DIR)` reads the voice if its sizes are Coqui's. If the
base is the best of a run, the voice is the base with the person's recording and the decoder learned
for it.

With `--adapter`, the folder holds the LoRA adapter, the person's recording and, if one was learned
for these weights, the decoder. It takes megabytes; an ordinary export also contains the base. A
blend, base + share * (tuned - base), is the same adapter at a smaller scale:
W + share * alpha / rank * B A.
"""

import contextlib
import json
import logging
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, cast

import torch
from torch import Tensor

from machine import commands
from machine.errors import SotaqueError
from machine.storage.checksums import sha256_of
from machine.storage.files import Written, replace_file, writing_to
from machine.storage.folders import replacing_folder
from train.progress import CountingFile, Progress
from train.settings import TrainSettings
from xtts import audio, encoding
from xtts.audio import facts
from xtts.model.config import COQUI_NAMES, ConfigError, ModelConfig, with_normalizer
from xtts.model.gpt import PREFIX, from_coqui
from xtts.model.loading import mel_stats, read_tensors
from xtts.model.vocoder import WAVEFORM_DECODER
from xtts.text.languages import short_code
from xtts.text.pronunciations import PRONUNCIATIONS_FILE
from xtts.voices import adapter_file, bundle, formats, learned_decoder, speakers
from xtts.voices.base_models import BundleError
from xtts.voices.run_folder import RunFolder, read_checkpoint
from xtts.voices.voice_files import VoiceFiles, VoiceSpec, find_voice

log = logging.getLogger("train")

_BASE_VOICES = "speakers_xtts.pth"
# The tensors that speech needs; Coqui's trainer stores others, too.
_SPEECH_TENSORS = (PREFIX, "hifigan_decoder.", "mel_stats")


def run(
    settings: TrainSettings,
    *,
    checkpoint: Path | None,
    to: Path,
    base: Path | None,
    force: bool = False,
    onnx: str | None = None,
    adapter: bool = False,
) -> int:
    """Runs the verb: finds the voice, exports it and logs the result.

    checkpoint: None for the best in OUTPUT_DIR. force: replaces an earlier export in `to`, which
    otherwise raises SotaqueError. onnx: a precision of ONNX models, or `all`.
    adapter: exports what LORA_RANK learned.
    """
    if adapter:
        refuse_earlier_export(to, "bundle.json", force)
        log.info(export_adapter(voice_to_export(settings, checkpoint, base), to))
        return 0
    onnx_format = None if onnx is None else formats.format_for("onnx")
    refuse_earlier_export(to, "bundle.json" if onnx_format is None else onnx_format.HEADER, force)
    is_export = checkpoint is not None and (checkpoint / "bundle.json").is_file()
    if onnx_format is None and is_export:
        raise SotaqueError(
            f"--checkpoint {checkpoint} is an exported voice already: copy its folder. --onnx "
            "exports ONNX models of it."
        )
    if onnx_format is None:
        log.info(export(voice_to_export(settings, checkpoint, base), to))
        return 0
    source = (
        _exported_voice(checkpoint, settings) if is_export else voice_to_export(settings, checkpoint, base)
    )
    written = onnx_format.export(source, to, onnx)
    log.info("%s holds the ONNX voice (%s). It speaks with:\n  %s", to, written, speak_command(to))
    return 0


def speak_command(voice: Path) -> str:
    """The command that speaks with an exported voice."""
    name = shlex.quote(str(voice))
    return commands.program(f'xtts speak --voice {name} --text "Good morning." --out out.wav')


def _exported_voice(folder: Path | None, settings: TrainSettings) -> VoiceFiles:
    """The exported voice in `folder`. Raises SotaqueError for an adapter."""
    voice = find_voice(VoiceSpec(str(folder), tos_agreed=settings.coqui_tos_agreed))
    if voice.adapter is not None:
        raise SotaqueError(
            f"--checkpoint {folder} is an adapter, and ONNX models hold whole weights. Name the "
            "checkpoint that it was exported from."
        )
    return voice


def refuse_earlier_export(to: Path, mark: str, force: bool) -> None:
    """Raises SotaqueError if `to` holds an export, known by the file `mark`, unless `force` is
    set."""
    if (to / mark).is_file() and not force:
        raise SotaqueError(
            f"--to {to} already holds an exported voice, which stays as it is. Name another "
            "folder, or add --force to replace it."
        )


def voice_to_export(settings: TrainSettings, checkpoint: Path | None, base: Path | None) -> VoiceFiles:
    """The voice of a checkpoint, or the best in OUTPUT_DIR, which may be the base. Raises
    SotaqueError if there is nothing to export, and the errors of `find_voice`."""
    if checkpoint is None:
        best = RunFolder(settings.output_dir).best_weights()
        if best is None:
            raise SotaqueError(
                f"{settings.output_dir} holds nothing to export; name a checkpoint with "
                "--checkpoint, or another run with OUTPUT_DIR."
            )
        name = best.weights.name if best.weights else "the base"
        if not best.fallback:  # logged by `find_voice`
            log.info("Exporting %s, which the evaluation chose. %s", name, best.reason)
    else:
        read_checkpoint(checkpoint)  # for a folder, raises an error that lists its epochs
    voice = find_voice(
        VoiceSpec(
            str(checkpoint or settings.output_dir),
            str(base) if base else None,
            str(settings.xtts_v2_dir),
            settings.coqui_tos_agreed,
        )
    )
    if voice.reference is None:
        log.warning(
            "The exported voice holds no recording of the person: the run kept none. Run `%s` "
            "and export it again, or speak with --reference FILE.",
            commands.program("train sample"),
        )
    return voice


def export(voice: VoiceFiles, to: Path) -> str:
    """Exports the voice to `to`. Returns a message: which programs can speak with it, or why
    Coqui's cannot.

    Raises SotaqueError for a folder with other files, and DiskFull, WriteError, RunError,
    BundleError, ConfigError.
    """
    with new_export(voice, to):
        pass
    if ModelConfig.read(to).speaks_in_coqui:
        return f"Exported to {to}: Coqui's Xtts.load_checkpoint speaks with it, and so do we."
    return (
        f"Exported to {to} as a voice for Sotaque. Coqui's own classes cannot load it: its "
        "vocoder, speaker encoder or text front-end is not XTTS-v2's."
    )


@contextlib.contextmanager
def new_export(voice: VoiceFiles, to: Path, config: ModelConfig | None = None) -> Iterator[Path]:
    """Yields a folder with the complete voice, and renames it to `to` if the block succeeds.
    config: of a GPT with another shape than the base's. Raises the errors of `export`."""
    refuse_other_files(to)
    is_base_shape = config is None
    config = config or ModelConfig.read(voice.folder)
    state = _voice_tensors(voice, config, is_base_shape)
    with replacing_folder(to, sum(t.nbytes for t in state.values())) as part:
        with writing_to(to):
            config = replace(config, normalizer=voice.normalizer or config.normalizer)
            files = _write_files(part, state, voice, config)
            _keep_pronunciations(part, to, voice.pronunciations)
            bundle.write(part, bundle_of(voice, config, files))
        yield part


def bundle_of(
    voice: VoiceFiles, config: ModelConfig, files: dict[str, Written], kind: str = "voice"
) -> bundle.Bundle:
    """The bundle.json of an export. kind: as in `Bundle`."""
    provenance = voice.provenance
    return bundle.Bundle(
        files=files,
        base=dict(provenance["base"]),
        data_sha256=str(provenance["fingerprint"]["data_sha256"]),
        epoch=int(provenance["epoch"]),
        licence=config.licence,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        speaks_in_coqui=config.speaks_in_coqui and kind == "voice",
        kind=kind,
    )


def _voice_tensors(voice: VoiceFiles, config: ModelConfig, is_base_shape: bool) -> dict[str, Tensor]:
    """The base's tensors, with trained ones replaced by the checkpoint's; in float32 for Coqui."""
    base = read_tensors(voice.folder / "model.pth")
    frozen = {
        name: tensor.float() if config.speaks_in_coqui and tensor.is_floating_point() else tensor
        for name, tensor in base.items()
        if name.startswith(_SPEECH_TENSORS) and not name.startswith(PREFIX)
    }
    frozen["mel_stats"] = mel_stats(voice.folder, base)
    gpt = {name: tensor.float() for name, tensor in base.items() if name.startswith(PREFIX)}
    if voice.state is not None and is_base_shape:
        _require_same_shapes(voice.state, base)
    text_ids = _text_ids(voice.folder, config)
    learned = {
        name: _without_padding_rows(name, tensor, text_ids)
        for name, tensor in (gpt if voice.state is None else voice.state).items()
    }
    decoder = learned_decoder.read_tensors(voice.decoder) if voice.decoder else {}
    return {**learned, **frozen, **decoder}


def _require_same_shapes(learned: Mapping[str, Tensor], base: Mapping[str, Tensor]) -> None:
    names = learned.keys() | {PREFIX + name for name in from_coqui(base)}
    for name in sorted(names):
        learned_shape, base_shape = (
            list(tensors[name].shape) if name in tensors else None for tensors in (learned, base)
        )
        if learned_shape != base_shape:
            raise ConfigError(
                f"{name} is {learned_shape or 'missing'} in the checkpoint and {base_shape or 'missing'} "
                "in the base model: they do not belong together. Name the right base with --base."
            )


def _text_ids(base_folder: Path, config: ModelConfig) -> int:
    """The number of text ids. Coqui sizes the text tables by the vocabulary, without padding
    rows."""
    if not config.speaks_in_coqui:
        return config.gpt.text_ids
    vocabulary = json.loads((base_folder / "vocab.json").read_text(encoding="utf-8"))
    ids: list[int] = list(vocabulary["model"]["vocab"].values())
    return 1 + int(max(ids + [token["id"] for token in vocabulary.get("added_tokens", [])]))


def _without_padding_rows(name: str, tensor: Tensor, text_ids: int) -> Tensor:
    is_text_table = name.startswith(("gpt.text_embedding.", "gpt.text_head."))
    return tensor[:text_ids].clone() if is_text_table else tensor


def _write_files(
    part: Path, state: dict[str, Tensor], voice: VoiceFiles, config: ModelConfig
) -> dict[str, Written]:
    base = voice.folder
    text_ids = len(state["gpt.text_embedding.weight"])
    megabytes = sum(tensor.nbytes for tensor in state.values()) / 1e6
    with Progress("Writing model.pth", megabytes, "MB") as progress:
        model = replace_file(
            part / "model.pth",
            lambda file: torch.save({"model": state}, cast(BinaryIO, CountingFile(file, progress))),
        )
    content = _config(base, config, text_ids)
    if voice.state is not None:
        _mark_language_learned(content, voice.provenance.get("language", ""))
    files = {
        "config.json": _write_config(part, content),
        "vocab.json": copy_file(base / "vocab.json", part / "vocab.json"),
        "model.pth": model,
    }
    if (base / _BASE_VOICES).is_file():
        files[_BASE_VOICES] = copy_file(base / _BASE_VOICES, part / _BASE_VOICES)
    if voice.reference:
        files["reference.wav"] = write_reference(voice.reference, part / "reference.wav")
    files |= speakers.copy_speakers(voice.speakers, part, ".wav", copy_file)
    return files | _write_speaker_decoders(part, voice)


def _write_speaker_decoders(part: Path, voice: VoiceFiles) -> dict[str, Written]:
    """Writes the decoder of each speaker except the first, whose decoder is in model.pth. If that
    one is a learned decoder, also writes the base's, for speakers without one."""
    further_speakers = list(enumerate(voice.speakers.values(), start=1))[1:]
    decoders = {number: voice.speaker_decoders.get(path) for number, path in further_speakers}
    written = {}
    for number, tensors in decoders.items():
        if tensors is not None:
            name = speakers.decoder_of(Path(speakers.FOLDER, f"{number}.wav"))
            written[str(name)] = copy_file(tensors, part / name)
    if voice.decoder is not None and None in decoders.values():
        base = read_tensors(voice.folder / "model.pth")
        decoder = {name: tensor for name, tensor in base.items() if name.startswith(WAVEFORM_DECODER)}
        name = Path(speakers.FOLDER, speakers.BASE_DECODER)
        written[str(name)] = learned_decoder.write_tensors(part / name, decoder)
    return written


def _keep_pronunciations(part: Path, to: Path, run_files: Sequence[Path]) -> None:
    """Copies the pronunciations of the replaced export, or else of the run. bundle.json does not
    list the file, because its owner may change it."""
    for path in (to / PRONUNCIATIONS_FILE, *run_files):
        if path.is_file():
            copy_file(path, part / PRONUNCIATIONS_FILE)
            return


def write_reference(source: Path, path: Path) -> Written:
    """Copies a WAV unchanged, so that the voice keeps its exact latents; converts other formats."""
    if source.suffix.lower() == ".wav":
        return copy_file(source, path)
    rate = facts(source).rate
    encoding.write_wav(path, audio.read(source, rate), rate)
    return Written(sha256_of(path), path.stat().st_size)


def copy_file(source: Path, path: Path) -> Written:
    """Copies a file; returns its hash and size. Raises DiskFull, WriteError, SotaqueError."""
    try:
        source_file = source.open("rb")
    except OSError as error:
        raise SotaqueError(f"{source} cannot be read ({error.strerror}).") from error
    with source_file:
        return replace_file(path, lambda file: shutil.copyfileobj(source_file, file))


def _config(base_folder: Path, config: ModelConfig, text_ids: int) -> dict[str, Any]:
    """The base's config.json with all sizes, because some of Coqui's defaults are not XTTS-v2's."""
    content: dict[str, Any] = json.loads((base_folder / "config.json").read_text(encoding="utf-8"))
    content["model"] = "xtts"
    content["languages"] = list(config.languages)
    if config.alignment_heads is None:
        (content.get("sotaque") or {}).pop("alignment_heads", None)
    args = {COQUI_NAMES[name]: value for name, value in vars(config.gpt).items()} | {
        "gpt_number_text_tokens": text_ids,
        "gpt_use_perceiver_resampler": True,
        "decoder_input_dim": config.gpt.width,
    }
    content["model_args"] = (content.get("model_args") or {}) | args
    return with_normalizer(content, config.normalizer)


def _mark_language_learned(content: dict[str, Any], language: str) -> None:
    """Marks an added language as learned in the content of a config.json."""
    for extension in content["sotaque"].get("extensions", ()):
        if extension["language"] == short_code(language):
            extension["learned"] = True


def _write_config(folder: Path, config: dict[str, object]) -> Written:
    """Writes config.json as Coqui does: some values are `Infinity`, which strict JSON lacks."""
    text = json.dumps(config, indent=4, ensure_ascii=False)
    return replace_file(folder / "config.json", lambda file: file.write(text.encode()))


def refuse_other_files(to: Path) -> None:
    """Raises SotaqueError unless `to` is missing, empty, or an earlier export without other
    files."""
    if not to.exists():
        return
    if not to.is_dir():
        raise SotaqueError(f"--to {to} is a file; name a folder.")
    names = {path.name for path in to.iterdir()}
    exported: set[str] = set()
    with contextlib.suppress(BundleError):
        files = {Path(name).parts[0] for name in bundle.read(to).files}
        exported = {*files, "bundle.json", PRONUNCIATIONS_FILE}
    if foreign := sorted(names - exported):
        raise SotaqueError(
            f"--to {to} holds {foreign[0]}, which no export wrote. Name a new or empty folder."
        )


# A LoRA adapter


def export_adapter(voice: VoiceFiles, to: Path) -> str:
    """Writes the adapter of an epoch or of its blend into `to`. Returns instructions for its use.

    Raises SotaqueError if the adapter or the person's recording is missing, and the errors of
    `export`.
    """
    refuse_other_files(to)
    path, share = _adapter_of(voice)
    if voice.reference is None:
        raise SotaqueError(
            "An adapter speaks as the person of its recording, and this run kept none. Run "
            f"`{commands.program('train sample')}`, and export it again."
        )
    if len(voice.speakers) > 1:
        log.warning(
            "The run has %d named speakers; the adapter takes the recording of the first one, %s. "
            "Leave out --adapter to export all of them.",
            len(voice.speakers),
            next(iter(voice.speakers)),
        )
    header, tensors = adapter_file.read(path)
    decoder_bytes = voice.decoder.stat().st_size if voice.decoder else 0
    with replacing_folder(to, path.stat().st_size + decoder_bytes) as part:
        header = replace(header, share=share)
        files = {
            adapter_file.FILE_NAME: adapter_file.write(part / adapter_file.FILE_NAME, tensors, header),
            "reference.wav": write_reference(voice.reference, part / "reference.wav"),
        }
        if voice.decoder:
            files[bundle.DECODER_FILE] = copy_file(voice.decoder, part / bundle.DECODER_FILE)
        config = ModelConfig.read(voice.folder)
        bundle.write(part, bundle_of(voice, config, files, bundle.ADAPTER))
    return (
        f"Exported to {to}: an adapter of {header.base['name']}, rank {header.rank}. It speaks "
        "with:\n"
        f"  {speak_command(to)}\n"
        "A service that serves its base speaks with it too, if it is in VOICES_DIR/adapters."
    )


def _adapter_of(voice: VoiceFiles) -> tuple[Path, float]:
    """The verified adapter file of a voice, and the voice's share of it. Raises SotaqueError."""
    if voice.state is None:
        raise SotaqueError(
            "The best of this run is the base with the person's recording, which needs no adapter. "
            "Name an epoch with --checkpoint, or leave out --adapter."
        )
    run, blend = RunFolder(voice.weights.parent.parent), voice.provenance.get("blend") or {}
    epoch = int(voice.provenance["epoch"])
    path, saved = run.adapter_path(epoch), run.verified(epoch)
    # False for a file copied out of its run, or a blend of an epoch that was trained again later.
    is_same = saved and blend.get("checkpoint_sha256", saved.sha256) == saved.sha256
    if saved is None or not is_same or path.name not in saved.manifest.files:
        raise SotaqueError(
            f"{voice.weights.name} has no adapter in {run.checkpoints}. LORA_RANK saves one with "
            "each epoch, unless the run began with the weights of another run or learned an added "
            "language. Leave out --adapter to export the whole voice."
        )
    return path, float(blend.get("share", 1.0))
