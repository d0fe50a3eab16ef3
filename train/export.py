"""`python -m train export`: a checkpoint becomes a voice folder for Coqui or for us.

What learned comes from the checkpoint, all else from the base model under its published names, so
that Coqui's `Xtts.load_checkpoint(DIR)` reads it where the sizes are Coqui's.
"""

import contextlib
import json
import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, cast

import torch
from torch import Tensor

from machine.errors import SotaqueError
from machine.storage.atomic import (
    WriteError,
    Written,
    replace_file,
    require_space,
    sha256_of,
    sync_folder,
)
from train.progress import CountingFile, Progress
from train.settings import TrainSettings
from xtts import audio
from xtts.hub import bundle
from xtts.hub.base_models import base_of
from xtts.hub.learned_speaker import NAME as LEARNED_SPEAKER
from xtts.hub.learned_speaker import speaker_beside
from xtts.hub.run_folder import (
    Checkpoint,
    RunFolder,
    normalizer_of,
    read_checkpoint,
    reference_beside,
)
from xtts.model.config import ConfigError, ModelConfig, naming_normalizer
from xtts.model.gpt import PREFIX, from_coqui
from xtts.model.loading import mel_stats, read_tensors
from xtts.text.pronunciations import NAME as PRONUNCIATIONS

log = logging.getLogger("train")

# What Coqui's trainer stores beside the model; nothing reads it when speaking.
_KEPT = (PREFIX, "hifigan_decoder.", "mel_stats")


class ExportError(SotaqueError):
    """An export that cannot be made; nothing was changed."""


@dataclass(frozen=True)
class Exported:
    """What was written. sentence: which programs can speak with it, and why not Coqui's."""

    folder: Path
    speaks_in_coqui: bool
    sentence: str


def run(
    settings: TrainSettings, *, checkpoint: Path, to: Path, base: Path | None, force: bool = False
) -> int:
    """The verb: finds the base model and the reference, exports, tells what came of it.

    force: an export that `to` holds already is replaced. Raises ExportError without it.
    """
    refuse_earlier(to, "bundle.json", force=force)
    found = read_checkpoint(checkpoint)
    folder = base_of(checkpoint, found.provenance, base, settings.xtts_v2_dir)
    config = ModelConfig.read(folder)
    exported = export(checkpoint, to, folder, config, reference_beside(checkpoint))
    log.info(exported.sentence)
    return 0


def best_checkpoint(settings: TrainSettings) -> Path:
    """What is best in OUTPUT_DIR, for an export that names nothing. Raises ExportError where there
    is nothing, or where that is the base itself."""
    best = RunFolder(settings.output_dir).best_weights()
    if best is None:
        raise ExportError(
            f"{settings.output_dir} holds nothing to export; name a checkpoint with --checkpoint, "
            "or another run with OUTPUT_DIR."
        )
    if best.weights is None:
        raise ExportError(
            f"{best.reason} There is nothing to export; name an epoch with --checkpoint all the "
            "same, or speak with the base and a recording of the person."
        )
    log.info("Exporting %s, the best of the run: %s", best.weights.name, best.reason)
    return best.weights


def export(
    checkpoint: Path, to: Path, base_folder: Path, config: ModelConfig, reference: Path | None
) -> Exported:
    """Writes the voice into a folder beside `to` and gives it its name when it is whole.

    Raises ExportError for a folder with other things in it, and DiskFull, WriteError, RunError,
    BundleError, ConfigError.
    """
    found = read_checkpoint(checkpoint)
    _refuse_others(to)
    state = _state(found, base_folder, config)
    part = to.parent / f".{to.name}.{os.getpid()}.sotaque-part"
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        require_space(to.parent, sum(t.nbytes for t in state.values()), to.name)
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        config = replace(config, normalizer=normalizer_of(found.provenance))
        files = _write_files(part, state, base_folder, config, reference)
        if speaker := speaker_beside(checkpoint):
            files[LEARNED_SPEAKER] = _copy(speaker, part / LEARNED_SPEAKER)
        _keep_pronunciations(part, checkpoint, to)
        bundle.write(part, _bundle(found, files, config))
        _give_name(part, to)
    except OSError as error:
        raise WriteError(f"{to} could not be written ({error.strerror}).") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return Exported(to, config.speaks_in_coqui, _sentence(to, config))


def _state(found: Checkpoint, base_folder: Path, config: ModelConfig) -> dict[str, Tensor]:
    """The base's tensors with the learned ones in their place, as float32 for Coqui."""
    base = read_tensors(base_folder / "model.pth")
    frozen = {
        name: tensor.float() if config.speaks_in_coqui and tensor.is_floating_point() else tensor
        for name, tensor in base.items()
        if name.startswith(_KEPT) and not name.startswith(PREFIX)
    }
    frozen["mel_stats"] = mel_stats(base_folder, base)
    _check_same(found.model, base)
    text_ids = _text_ids(base_folder, config)
    learned = {name: _cut(name, tensor, text_ids) for name, tensor in found.model.items()}
    return {**learned, **frozen}


def _check_same(learned: Mapping[str, Tensor], base: Mapping[str, Tensor]) -> None:
    names = learned.keys() | {PREFIX + name for name in from_coqui(base)}
    for name in sorted(names):
        sizes = [list(part[name].shape) if name in part else None for part in (learned, base)]
        if sizes[0] != sizes[1]:
            raise ConfigError(
                f"{name} is {sizes[0] or 'missing'} in the checkpoint and {sizes[1] or 'missing'} "
                "in the base model: they do not belong together. Name its own base with --base."
            )


def _text_ids(base_folder: Path, config: ModelConfig) -> int:
    """Coqui sizes the text tables by the vocabulary alone, so rows that pad them are left out."""
    if not config.speaks_in_coqui:
        return config.gpt.text_ids
    vocabulary = json.loads((base_folder / "vocab.json").read_text(encoding="utf-8"))
    ids: list[int] = list(vocabulary["model"]["vocab"].values())
    return 1 + int(max(ids + [token["id"] for token in vocabulary.get("added_tokens", [])]))


def _cut(name: str, tensor: Tensor, text_ids: int) -> Tensor:
    by_text = name.startswith(("gpt.text_embedding.", "gpt.text_head."))
    return tensor[:text_ids].clone() if by_text else tensor


def _write_files(
    part: Path,
    state: dict[str, Tensor],
    base_folder: Path,
    config: ModelConfig,
    reference: Path | None,
) -> dict[str, Written]:
    text_ids = len(state["gpt.text_embedding.weight"])
    megabytes = sum(tensor.nbytes for tensor in state.values()) / 1e6
    with Progress("Writing model.pth", megabytes, "MB", patience_seconds=2.0) as progress:
        model = replace_file(
            part / "model.pth",
            lambda file: torch.save({"model": state}, cast(BinaryIO, CountingFile(file, progress))),
        )
    files = {
        "config.json": _write_config(part, _config(base_folder, config, text_ids)),
        "vocab.json": _copy(base_folder / "vocab.json", part / "vocab.json"),
        "model.pth": model,
    }
    if (base_folder / "speakers_xtts.pth").is_file():
        speakers = "speakers_xtts.pth"
        files[speakers] = _copy(base_folder / speakers, part / speakers)
    if reference is not None:
        files["reference.wav"] = _reference(reference, part / "reference.wav")
    return files


def _keep_pronunciations(part: Path, checkpoint: Path, to: Path) -> None:
    """The run's list, or the one of the export that is replaced. It is no file of the bundle: its
    owner may change it."""
    for folder in (to, checkpoint.parent.parent):
        if (folder / PRONUNCIATIONS).is_file():
            _copy(folder / PRONUNCIATIONS, part / PRONUNCIATIONS)
            return


def _reference(source: Path, path: Path) -> Written:
    """A wav as it is, so that the voice keeps its very latents; anything else becomes one."""
    if source.suffix.lower() == ".wav":
        return _copy(source, path)
    rate = audio.facts(source).rate
    audio.write_wav(path, audio.read(source, rate), rate)
    return Written(sha256_of(path), path.stat().st_size)


def _copy(source: Path, path: Path) -> Written:
    with source.open("rb") as opened:
        return replace_file(path, lambda file: shutil.copyfileobj(opened, file))


def _config(base_folder: Path, config: ModelConfig, text_ids: int) -> dict[str, Any]:
    """The base's config.json, with every size said: Coqui's defaults are not all XTTS-v2's."""
    found: dict[str, Any] = json.loads((base_folder / "config.json").read_text(encoding="utf-8"))
    gpt = config.gpt
    found["model"] = "xtts"
    found["model_args"] = (found.get("model_args") or {}) | {
        "gpt_layers": gpt.layers,
        "gpt_n_model_channels": gpt.width,
        "gpt_n_heads": gpt.heads,
        "gpt_number_text_tokens": text_ids,
        "gpt_start_text_token": gpt.text_start,
        "gpt_stop_text_token": gpt.text_stop,
        "gpt_num_audio_tokens": gpt.audio_ids,
        "gpt_start_audio_token": gpt.audio_start,
        "gpt_stop_audio_token": gpt.audio_stop,
        "gpt_max_text_tokens": gpt.max_text_tokens,
        "gpt_max_audio_tokens": gpt.max_audio_tokens,
        "gpt_use_perceiver_resampler": True,
        "decoder_input_dim": gpt.width,
    }
    return naming_normalizer(found, config.normalizer)


def _write_config(folder: Path, config: dict[str, Any]) -> Written:
    """As Coqui writes it: some of its values are `Infinity`, which strict JSON has not."""
    text = json.dumps(config, indent=4, ensure_ascii=False)
    return replace_file(folder / "config.json", lambda file: file.write(text.encode()))


def _bundle(found: Checkpoint, files: dict[str, Written], config: ModelConfig) -> bundle.Bundle:
    provenance = found.provenance
    return bundle.Bundle(
        files=files,
        base=dict(provenance["base"]),
        data_sha256=str(provenance["fingerprint"]["data_sha256"]),
        epoch=int(provenance["epoch"]),
        licence=config.licence,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        speaks_in_coqui=config.speaks_in_coqui,
    )


def refuse_earlier(to: Path, mark: str, *, force: bool) -> None:
    """An export is a choice that a person made: it is replaced only when that is asked for.
    mark: the file that identifies an export. Raises ExportError."""
    if (to / mark).is_file() and not force:
        raise ExportError(
            f"--to {to} holds an exported voice already, and is left as it is. Name another "
            "folder, or add --force to replace it."
        )


def _refuse_others(to: Path) -> None:
    """Only an empty folder, or an earlier export without anything else in it, is replaced."""
    if not to.exists():
        return
    if not to.is_dir():
        raise ExportError(f"--to {to} is a file; name a folder.")
    present = {path.name for path in to.iterdir()}
    known: set[str] = set()
    with contextlib.suppress(bundle.BundleError):
        known = {*bundle.read(to).files, "bundle.json", PRONUNCIATIONS}
    if others := sorted(present - known):
        raise ExportError(
            f"--to {to} holds {others[0]}, which no export wrote. Name a new or empty folder."
        )


def _give_name(part: Path, to: Path) -> None:
    if to.exists():
        to.rename(part.with_name(part.name.replace(".sotaque-part", ".old.sotaque-part")))
    part.rename(to)
    sync_folder(to.parent)
    # The folder that was replaced, and whatever killed exports to the same place left.
    for left in to.parent.glob(f".{to.name}.*.sotaque-part"):
        shutil.rmtree(left, ignore_errors=True)


def _sentence(to: Path, config: ModelConfig) -> str:
    if config.speaks_in_coqui:
        return f"Exported to {to}: Coqui's Xtts.load_checkpoint speaks with it, and so do we."
    return (
        f"Exported to {to} as a voice for Sotaque. Coqui's own classes cannot load it: its "
        "vocoder, speaker encoder or text front-end is not XTTS-v2's."
    )
