"""`python -m train export --to NAME.sotaque`: exports a voice as one file.

The size follows from the voice: the best of a run may be its base with the person's recording,
which are latents; `--adapter` exports what LORA_RANK learned; everything else are weights.
"""

import contextlib
import logging
import shlex
import tempfile
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from machine import commands
from machine.errors import SotaqueError
from machine.storage.files import Written, make_folder, writing_to
from machine.text import first_line, size_words
from train import export
from train.evaluation.plan import built_in_sentences
from train.settings import TrainSettings
from xtts.model.config import ModelConfig
from xtts.voices import bundle
from xtts.voices.evaluation_file import Evaluation, candidate_id, read_evaluation
from xtts.voices.files.manifest import MAX_NAME, MAX_TEXT, Consent, Preview
from xtts.voices.files.packing import PackingOptions, pack
from xtts.voices.run_folder import RunFolder
from xtts.voices.voice_files import VoiceFiles, VoiceSpec, find_voice

log = logging.getLogger("train")

_OTHERWISE = "Good morning."


def run(
    settings: TrainSettings,
    *,
    checkpoint: Path | None,
    to: Path,
    base: Path | None,
    force: bool,
    adapter: bool,
    with_reference: bool,
    consent: Path | None,
) -> int:
    """Runs the verb: exports the voice into a temporary folder, and packs that. The arguments are
    its options, as `train.verbs.export` describes them."""
    if to.exists() and not force:
        raise SotaqueError(
            f"--to {to} exists already and stays as it is. Name another file, or add --force to replace it."
        )
    agreed = _consent(consent)
    make_folder(to.parent)
    with contextlib.ExitStack() as stack:
        with writing_to(to):
            folder = stack.enter_context(tempfile.TemporaryDirectory(dir=to.parent, prefix=".sotaque-"))
        exported, run, voice = _export(settings, checkpoint, base, adapter, Path(folder) / "voice")
        language = str(voice.provenance.get("language") or "") if voice else ""
        spec = VoiceSpec(
            str(exported), str(base) if base else None, str(settings.xtts_v2_dir), settings.coqui_tos_agreed
        )
        files = find_voice(spec)
        manifest = pack(
            files,
            exported,
            to,
            PackingOptions(
                to.stem[:MAX_NAME],
                _preview(settings, ModelConfig.read(files.folder), language),
                with_reference,
                agreed,
                figures(run, voice) if run and voice else {},
            ),
        )
    what = {"latents": "latents", "adapter": "an adapter", "weights": "complete weights"}
    log.info(
        "Exported to %s (%s of %s, %s). It speaks with:\n  %s\nand is imported with:\n  %s",
        to,
        what[manifest.kind],
        manifest.base.name,
        size_words(to.stat().st_size),
        export.speak_command(to),
        commands.program(f"xtts import {shlex.quote(str(to))}"),
    )
    return 0


def _export(
    settings: TrainSettings, checkpoint: Path | None, base: Path | None, adapter: bool, folder: Path
) -> tuple[Path, RunFolder | None, VoiceFiles | None]:
    """The folder of the exported voice, its run, and the voice of the run; None for one that was
    exported before."""
    if checkpoint is not None and (checkpoint / "bundle.json").is_file():
        return checkpoint, None, None
    voice = export.voice_to_export(settings, checkpoint, base)
    run = RunFolder(checkpoint.parent.parent if checkpoint else settings.output_dir)
    if adapter:
        export.export_adapter(voice, folder)
    elif voice.state is None:
        _export_latents(voice, folder)
    else:
        export.export(voice, folder)
    return folder, run, voice


def _export_latents(voice: VoiceFiles, folder: Path) -> None:
    """Writes the person's recording and the decoder that was learned for the base: an adapter's
    folder without an adapter."""
    if voice.reference is None:
        raise SotaqueError(
            "The best of this run is the base with the person's recording, and the run kept none. "
            f"Run `{commands.program('train sample')}`, and export it again."
        )
    folder.mkdir()
    written = export.write_reference(voice.reference, folder / "reference.wav")
    files: dict[str, Written] = {"reference.wav": written}
    if voice.decoder:
        files[bundle.DECODER_FILE] = export.copy_file(voice.decoder, folder / bundle.DECODER_FILE)
    config = ModelConfig.read(voice.folder)
    bundle.write(folder, export.bundle_of(voice, config, files, bundle.LATENTS))


def _preview(settings: TrainSettings, config: ModelConfig, language: str) -> Preview:
    """The sentence of preview.wav: SAMPLE_TEXT, or a built-in one in the voice's language."""
    spoken = language or ("en" if "en" in config.languages else config.languages[0])
    sentences = built_in_sentences(spoken) or [_OTHERWISE]
    return Preview((settings.sample_text or sentences[0])[:MAX_TEXT], spoken, settings.seed)


def _consent(path: Path | None) -> Consent | None:
    """The consent in a JSON file. Raises SotaqueError."""
    if path is None:
        return None
    try:
        return TypeAdapter(Consent).validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise SotaqueError(
            f"--consent {path} cannot be used ({first_line(error)}). It holds three texts: "
            '{"who": …, "when": …, "what": …}.'
        ) from error


def figures(run: RunFolder, voice: VoiceFiles) -> dict[str, object]:
    """The figures of the evaluation for these weights: the number of sentences, the verdict's
    reason, and for each judge its mean, that of the base and its unit. {} if they were not
    judged."""
    judged = read_evaluation(run.evaluation_file)
    candidate = judged.with_id(_candidate(voice)) if judged else None
    if judged is None or candidate is None:
        return {}
    base = next((candidate for candidate in judged.candidates if candidate.is_base), None)
    return {
        "made_at": judged.made_at,
        "candidate": candidate.name,
        "sentences": len(candidate.sentences),
        "failed": candidate.num_failed,
        "reason": _reason(judged, candidate.id),
        "judges": {
            name: {
                "best": figure.mean,
                "low": figure.low,
                "high": figure.high,
                "base": base.judges[name].mean if base and name in base.judges else None,
                "unit": judged.judges[name].unit if name in judged.judges else "",
            }
            for name, figure in candidate.judges.items()
        },
    }


def _candidate(voice: VoiceFiles) -> str:
    epoch = int(voice.provenance.get("epoch", 0))
    if voice.state is None:
        return candidate_id("base", 0, 0.0, "learned" if voice.decoder else "")
    if blend := voice.provenance.get("blend"):
        return candidate_id("blend", epoch, float(blend["share"]))
    return candidate_id("epoch", epoch)


def _reason(judged: Evaluation, candidate: str) -> str:
    """Why these are the best weights; "" for others."""
    best = judged.verdict
    return best.reason if best and best.candidate == candidate else ""
