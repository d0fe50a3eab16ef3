"""The command line of training; the default command is `run`.

run            fine-tune; continue a run that stopped
check          check the sound and the text of the dataset; train nothing
               --show-text      print how the transcripts are read
               --no-likelihood  skip the slowest check
               --verify         compare the feature cache with its hashes
               --repair         compute damaged records of the feature cache again
               --json           print what was found as JSON; the log goes to stderr
cut            make a dataset of long recordings
               RECORDING... --to DIR [--text FILE | --recogniser DIR] [--language L]
               [--ray] [--workers N]
extend         add a language that the base model does not speak (docs/languages.md)
               --language L --dataset DIR --to BASE [--like L] [--pieces N]
queue          take trainings out of QUEUE_DIR, one at a time  [--once]
prepare        compute the feature cache; train nothing
sample         speak the newest epoch again, or --epoch N
evaluate       judge the base, every saved epoch and blends, and report the best one  [--json]
learn-decoder  train the decoder of the best weights again, with more clips or time  [--minutes M]
distil         make a voice with half the layers, of the best weights (docs/distillation.md)
               --to DIR [--layers N] [--epochs N] [--minutes M] [--texts FILE] [--force]
export         write a voice to a folder
               --to DIR [--checkpoint FILE] [--base DIR] [--force]
               [--onnx [all|fp32|int8|int4] | --adapter]
"""

import argparse
import faulthandler
import logging
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

from machine import commands
from machine.devices.cuda_errors import exit_after_fault
from machine.errors import SotaqueError
from machine.threads import limit_omp_spinning
from train.settings import TrainSettings, load
from xtts.text.language_names import tag_of

log = logging.getLogger("train")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb and returns its exit code; prints the message of a SotaqueError."""
    limit_omp_spinning()
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in ("-h", "--help"):
        usage = f"usage: {commands.program('train')} [COMMAND] [options] [settings]"
        print(f"{usage}\n\n{__doc__}\n{textwrap.fill(_SETTINGS, 79)}")
        return 0
    verb = words.pop(0) if words and not words[0].startswith("-") else "run"
    # With --json, stdout carries nothing but JSON.
    stream = sys.stderr if "--json" in words else sys.stdout
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=stream)
    logging.captureWarnings(True)
    try:
        if verb not in _VERBS:
            known = ", ".join(_VERBS)
            raise SotaqueError(f"Unknown command {verb!r}. Use one of: {known}. See --help.")
        own, rest = _own_arguments(verb).parse_known_args(words)
        if verb in _FOLDERS and own.to is None:
            raise SotaqueError(
                f"{verb} needs --to {_FOLDERS[verb]}, the folder to write. See --help."
            )
        settings, report = load(rest)
        for note in report.notes:
            log.info(note)
        if verb == "run":
            log.info(report.given())
        return _VERBS[verb](settings, own)
    except SotaqueError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:  # before a run is in progress, which handles its own signals
        return 130


# Each verb imports what it needs inside: `check` loads no model, `export` starts no TensorBoard.


def _run(settings: TrainSettings, _own: argparse.Namespace) -> int:
    from train.setup import open_trainer

    if not faulthandler.is_enabled():
        faulthandler.enable()  # also prints a traceback for a crash in C

    with open_trainer(settings) as trainer:
        return trainer.run()


def _check(settings: TrainSettings, own: argparse.Namespace) -> int:
    from train import check

    return check.run(
        settings, verify=own.verify, repair=own.repair, show_text=own.show_text,
        with_likelihood=not own.no_likelihood, as_json=own.json,
    )  # fmt: skip


def _cut(settings: TrainSettings, own: argparse.Namespace) -> int:
    from extras.cut import command as cutting
    from machine.steps import steps_for

    return cutting.run(
        settings, own.recordings, own.to, own.text, own.language or settings.language,
        own.recogniser, steps_for(own.ray, own.workers),
    )  # fmt: skip


def _extend(settings: TrainSettings, own: argparse.Namespace) -> int:
    from extras.languages import command as extending

    return extending.run(
        settings, to=own.to, dataset=own.dataset, like=own.like, most_pieces=own.pieces
    )


def _queue(settings: TrainSettings, own: argparse.Namespace) -> int:
    from extras.studio.jobs import command as jobs

    return jobs.run(settings, once=own.once)


def _prepare(settings: TrainSettings, _own: argparse.Namespace) -> int:
    from train.setup import prepare

    return prepare(settings)


def _sample(settings: TrainSettings, own: argparse.Namespace) -> int:
    from train.sampling import command as listening

    return listening.run(settings, epoch=own.epoch)


def _evaluate(settings: TrainSettings, own: argparse.Namespace) -> int:
    from train.evaluation import command as evaluating

    return evaluating.evaluate(settings, as_json=own.json)


def _learn_decoder(settings: TrainSettings, own: argparse.Namespace) -> int:
    from train.evaluation import command as evaluating

    return evaluating.learn_decoder(settings, minutes=own.minutes)


def _distil(settings: TrainSettings, own: argparse.Namespace) -> int:
    from extras.distil import command as distilling

    return distilling.run(settings, distilling.Asked(**vars(own)))


def _export(settings: TrainSettings, own: argparse.Namespace) -> int:
    from train import export

    asked = {"checkpoint": own.checkpoint, "to": own.to, "base": own.base, "force": own.force}
    if own.adapter and own.onnx is not None:
        raise SotaqueError(
            "--adapter and --onnx do not go together: ONNX models hold merged weights. Leave out "
            "one of them."
        )
    if own.adapter:
        from train import adapter_export

        return adapter_export.run(settings, **asked)
    return export.run(settings, onnx=own.onnx, **asked)


_VERBS: dict[str, Callable[[TrainSettings, argparse.Namespace], int]] = {
    "run": _run,
    "check": _check,
    "cut": _cut,
    "extend": _extend,
    "queue": _queue,
    "prepare": _prepare,
    "sample": _sample,
    "evaluate": _evaluate,
    "learn-decoder": _learn_decoder,
    "distil": _distil,
    "export": _export,
}


_SETTINGS = (
    "Every setting is also a flag, such as --dataset-dir DIR. `train run --help` lists "
    "the settings; docs/settings.md describes their values."
)
_PURPOSES = {
    "run": "Fine-tunes the base model on your dataset. Continues a run that stopped.",
    "check": "Checks the sound and the text of the dataset. Trains nothing.",
    "cut": "Cuts long recordings into clips with transcripts, and accounts for the rest.",
    "extend": "Adds a language to the base model: tag, characters, pieces and their rows.",
    "queue": "Takes trainings out of QUEUE_DIR, oldest first, one at a time (docs/studio.md).",
    "prepare": "Computes the feature cache. Trains nothing.",
    "sample": "Speaks with a saved epoch.",
    "evaluate": "Judges the base, every saved epoch and blends. Reports which is best, and why.",
    "learn-decoder": "Trains the decoder of the best weights again, on DECODER_CLIPS clips.",
    "distil": "Makes a voice with fewer layers, which learns to speak as the run's best weights.",
    "export": "Writes a checkpoint as a voice that you can copy elsewhere.",
}


# The folder that a verb requires as --to. It is missed before anything large is imported.
_FOLDERS = {"extend": "BASE", "distil": "DIR", "export": "DIR"}
# What the usage of a verb names before its options.
_REQUIRED = {
    "cut": "RECORDING... --to DIR ",
    "extend": "--language L --to BASE ",
    "distil": "--to DIR ",
    "export": "--to DIR ",
}


def _own_arguments(verb: str) -> argparse.ArgumentParser:
    """The options of a verb beside the settings. `run` has none: its help lists the settings."""
    parser = argparse.ArgumentParser(
        prog=commands.program(f"train {verb}"), add_help=verb != "run", allow_abbrev=False,
        usage=f"%(prog)s {_REQUIRED.get(verb, '')}[options] [settings]",
        description=_PURPOSES[verb], epilog=_SETTINGS,
    )  # fmt: skip
    add = parser.add_argument
    if verb == "check":
        add("--verify", action="store_true", help="compare the feature cache with its hashes")
        add("--repair", action="store_true", help="compute damaged records of the cache again")
        add(
            "--no-likelihood",
            action="store_true",
            help="skip the likelihood of each clip under the base model, the slowest check",
        )
        add("--show-text", action="store_true", help="print how the transcripts are read")
        add("--json", action="store_true", help="print the findings; the log goes to stderr")
    if verb == "cut":
        add("recordings", nargs="*", type=Path, metavar="RECORDING", help="long recordings")
        add("--to", type=Path, metavar="DIR", help="the folder to write")
        add(
            "--text",
            type=Path,
            metavar="FILE",
            help="the text of the recordings: txt, or with times: srt, vtt, lab, TextGrid. With a "
            "text, pauses from 0.12 s are cut at; without one, pauses from 0.3 s",
        )
        add(
            "--recogniser",
            type=Path,
            metavar="DIR",
            help="a Whisper model that writes the transcripts if you have no text",
        )
        add("--ray", action="store_true", help="compute on Ray; RAY_ADDRESS names a cluster")
        add(
            "--workers",
            type=int,
            metavar="N",
            help="how many Ray workers to start (default: all cores)",
        )
        # Declared here: as a setting's flag its value would be parsed as a recording.
        add("--language", type=tag_of, metavar="L",
            help="the language of the recordings (default: LANGUAGE)")  # fmt: skip
    if verb == "extend":
        add("--dataset", type=Path, metavar="DIR", help="the clips (default: DATASET_DIR)")
        add("--to", type=Path, metavar="BASE", help="the folder to write, for BASE_MODEL")
        add("--like", metavar="L", help="the base's language as whose tag the new one begins "
            "(default: the most similar)")  # fmt: skip
        add("--pieces", type=int, metavar="N",
            help="the most pieces of several characters to add (default: 500)")  # fmt: skip
    if verb == "queue":
        add("--once", action="store_true", help="end when no training is left")
    if verb == "sample":
        add("--epoch", type=int, metavar="N", help="the epoch (default: the newest)")
    if verb == "evaluate":
        add("--json", action="store_true", help="print evaluation.json; the log goes to stderr")
    if verb == "learn-decoder":
        add("--minutes", type=float, metavar="M", help="the time limit (default: 10)")
    if verb == "distil":
        add("--to", type=Path, metavar="DIR", help="the folder to write")
        add("--layers", type=int, metavar="N", help="the layers to keep (default: half of them)")
        add("--epochs", type=int, metavar="N", help="how often the lessons are learned "
            "(default: 15)")  # fmt: skip
        add("--minutes", type=float, metavar="M", help="the minutes of speech that the teacher "
            "says, and the most of the clips (default: 30)")  # fmt: skip
        add("--texts", type=Path, metavar="FILE", help="what the teacher says, a sentence a line "
            "(default: the transcripts, and halves of two)")  # fmt: skip
        add("--force", action="store_true", help="replace the voice that DIR holds")
    if verb == "export":
        add(
            "--checkpoint",
            type=Path,
            metavar="FILE",
            help="the checkpoint; for --onnx also an exported voice (default: the best)",
        )
        add("--to", type=Path, metavar="DIR", help="the folder to write")
        add("--base", type=Path, metavar="DIR", help="the base model, if it has moved")
        add("--force", action="store_true", help="replace the voice that DIR holds")
        add("--onnx", nargs="?", const="all", choices=("all", "fp32", "int8", "int4"),
            help="export ONNX models: all of them, or one precision")  # fmt: skip
        add("--adapter", action="store_true",
            help="export what LORA_RANK learned, without the base model")  # fmt: skip
    return parser


if __name__ == "__main__":
    exit_after_fault(main())
