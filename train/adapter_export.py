"""`python -m train export --adapter`: exports a LoRA adapter as a voice of its base.

The folder holds the adapter, the person's recording and, if one was learned for these weights, the
decoder. It takes megabytes; an ordinary export also contains the base. A blend, base + share *
(tuned - base), is the same adapter at a smaller scale: W + share * alpha / rank * B A.
"""

import logging
from dataclasses import replace
from pathlib import Path

from machine import commands
from machine.errors import SotaqueError
from machine.storage.folders import whole_folder
from train import export
from train.settings import TrainSettings
from xtts.model.config import ModelConfig
from xtts.voices import adapter_file, bundle
from xtts.voices.run_folder import RunFolder
from xtts.voices.voice_files import VoiceFiles

log = logging.getLogger("train")


def run(settings: TrainSettings, *, checkpoint: Path | None, to: Path, base: Path | None, force: bool) -> int:
    """Runs the verb. The arguments are those of `train.export.run`."""
    export.refuse_earlier(to, "bundle.json", force)
    log.info(export_adapter(export.voice_to_export(settings, checkpoint, base), to))
    return 0


def export_adapter(voice: VoiceFiles, to: Path) -> str:
    """Writes the adapter of an epoch or of its blend into `to`. Returns instructions for its use.

    Raises SotaqueError if the adapter or the person's recording is missing, and the errors of
    `train.export.export`.
    """
    export.refuse_others(to)
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
    with whole_folder(to, path.stat().st_size + decoder_bytes) as part:
        header = replace(header, share=share)
        files = {
            adapter_file.NAME: adapter_file.write(part / adapter_file.NAME, tensors, header),
            "reference.wav": export.write_reference(voice.reference, part / "reference.wav"),
        }
        if voice.decoder:
            files[bundle.DECODER] = export.copy_file(voice.decoder, part / bundle.DECODER)
        config = ModelConfig.read(voice.folder)
        bundle.write(part, export.bundle_of(voice, config, files, bundle.ADAPTER))
    return (
        f"Exported to {to}: an adapter of {header.base['name']}, rank {header.rank}. It speaks "
        "with:\n"
        f"  {export.speak_command(to)}\n"
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
    own = saved and blend.get("checkpoint_sha256", saved.sha256) == saved.sha256
    if saved is None or not own or path.name not in saved.manifest.files:
        raise SotaqueError(
            f"{voice.weights.name} has no adapter in {run.checkpoints}. LORA_RANK saves one with "
            "each epoch, unless the run began with the weights of another run or learned an added "
            "language. Leave out --adapter to export the whole voice."
        )
    return path, float(blend.get("share", 1.0))
