"""`python -m train VERB`: the command line; without a verb, `run`.

run            fine-tune, from the beginning or from where it stopped
check          read and judge the dataset, sound and text; train nothing   (--verify, --repair:
               the feature cache; --show-text: how the transcripts are read; --no-likelihood:
               faster)
cut            make a dataset of long recordings: RECORDING… --to DIR [--text FILE] [--language L]
               (--recogniser DIR: a Whisper model writes the transcripts; --ray: over Ray)
prepare        compute the feature cache, train nothing
sample         speak the newest epoch again, or --epoch N
evaluate       judge the base, every saved epoch and blends, and say which is best  (--json)
learn-decoder  learn the decoder of what is best again: more clips, more time  (--minutes M)
export         write a voice: --to DIR [--checkpoint PATH] [--base DIR] [--onnx [all|fp32|int8]]
               (--force: in the place of the voice that DIR holds)
"""

import argparse
import faulthandler
import logging
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

from machine.devices.cuda_errors import exit_after_fault
from machine.errors import SotaqueError
from machine.threads import set_omp_passive
from train.settings import TrainSettings, load

log = logging.getLogger("train")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb; prints the sentence of a fault and returns its exit code."""
    set_omp_passive()
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in ("-h", "--help"):
        print(f"{__doc__}\n{textwrap.fill(_SETTINGS, 79)}")
        return 0
    verb = words.pop(0) if words and not words[0].startswith("-") else "run"
    # What a program reads on stdout must be JSON alone.
    stream = sys.stderr if "--json" in words else sys.stdout
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=stream)
    logging.captureWarnings(True)
    try:
        if verb not in _VERBS:
            known = ", ".join(_VERBS)
            raise SotaqueError(f"There is no verb {verb!r}; the verbs are {known}. See --help.")
        own, rest = _own_arguments(verb).parse_known_args(words)
        settings, report = load(rest)
        for note in report.notes:
            log.info(note)
        if verb == "run":
            log.info(report.table())
        return _VERBS[verb](settings, own)
    except SotaqueError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:  # where no run is in progress yet: that one takes its own signals
        return 130


# Each verb imports what it needs inside: `check` loads no model, `export` starts no TensorBoard.


def _run(settings: TrainSettings, _own: argparse.Namespace) -> int:
    from train.setup import open_trainer

    if not faulthandler.is_enabled():
        faulthandler.enable()  # a crash in C tells its place too

    with open_trainer(settings) as trainer:
        return trainer.run()


def _check(settings: TrainSettings, own: argparse.Namespace) -> int:
    from train import check

    return check.run(
        settings, verify=own.verify, repair=own.repair, show_text=own.show_text,
        with_likelihood=not own.no_likelihood,
    )  # fmt: skip


def _cut(settings: TrainSettings, own: argparse.Namespace) -> int:
    from train.cutting import command as cutting
    from train.cutting.steps import steps_for

    return cutting.run(
        settings, own.recordings, own.to, own.text, own.language or settings.language,
        own.recogniser, steps_for(own.ray, own.workers),
    )  # fmt: skip


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


def _export(settings: TrainSettings, own: argparse.Namespace) -> int:
    from train import export

    if own.to is None:
        raise SotaqueError("export needs --to DIR; see --help.")
    return export.run(
        settings, checkpoint=own.checkpoint, to=own.to, base=own.base, force=own.force,
        onnx=own.onnx,
    )  # fmt: skip


_VERBS: dict[str, Callable[[TrainSettings, argparse.Namespace], int]] = {
    "run": _run,
    "check": _check,
    "cut": _cut,
    "prepare": _prepare,
    "sample": _sample,
    "evaluate": _evaluate,
    "learn-decoder": _learn_decoder,
    "export": _export,
}


_SETTINGS = (
    "Every setting is a flag too, such as --dataset-dir DIR. `python -m train run --help` lists "
    "them, docs/settings.md says what each may be."
)
_PURPOSES = {
    "run": "Fine-tunes, from the beginning or from where it stopped.",
    "check": "Reads and judges the dataset; trains nothing.",
    "cut": "Makes a dataset of long recordings: clips, transcripts, and what is in none.",
    "prepare": "Computes the feature cache; trains nothing.",
    "sample": "Speaks a saved epoch again.",
    "evaluate": "Judges the base, every saved epoch and blends; says which is best, and why.",
    "learn-decoder": "Learns the decoder of the best weights again, from DECODER_CLIPS clips.",
    "export": "Writes the voice of a checkpoint.",
}


def _own_arguments(verb: str) -> argparse.ArgumentParser:
    """What a verb asks beyond the settings. `run` asks nothing more: its help is the settings'."""
    parser = argparse.ArgumentParser(
        prog=f"python -m train {verb}", add_help=verb != "run", allow_abbrev=False,
        usage=f"python -m train {verb} [options] [settings]", description=_PURPOSES[verb],
        epilog=_SETTINGS,
    )  # fmt: skip
    add = parser.add_argument
    if verb == "check":
        add("--verify", action="store_true", help="compare the feature cache with its hashes")
        add("--repair", action="store_true", help="compute damaged records of the cache again")
        add("--no-likelihood", action="store_true", help="do not ask the base model of each clip")
        add("--show-text", action="store_true", help="print how the transcripts are read")
    if verb == "cut":
        add("recordings", nargs="*", type=Path, metavar="RECORDING", help="long recordings")
        add("--to", type=Path, metavar="DIR", help="the folder to write")
        add(
            "--text",
            type=Path,
            metavar="FILE",
            help="what they say: txt, or with times: srt, vtt, lab, TextGrid",
        )
        add(
            "--recogniser", type=Path, metavar="DIR", help="a Whisper model, where there is no text"
        )
        add("--ray", action="store_true", help="compute over Ray; RAY_ADDRESS names a cluster")
        add("--workers", type=int, metavar="N", help="how many of Ray's; else all cores")
        # Told apart from the setting, whose value would be taken for a recording.
        add("--language", metavar="L", help="what is spoken; else LANGUAGE")  # fmt: skip
    if verb == "sample":
        add("--epoch", type=int, metavar="N", help="which epoch; without it, the newest")
    if verb == "evaluate":
        add("--json", action="store_true", help="print evaluation.json; the log goes to stderr")
    if verb == "learn-decoder":
        add("--minutes", type=float, metavar="M", help="learn so long at most; else ten")
    if verb == "export":
        add("--checkpoint", type=Path, metavar="FILE", help="what to export; else what is best")
        add("--to", type=Path, metavar="DIR", help="the folder to write")
        add("--base", type=Path, metavar="DIR", help="its base model, where that has moved")
        add("--force", action="store_true", help="replace the voice that DIR holds")
        add("--onnx", nargs="?", const="all", choices=("all", "fp32", "int8"),
            help="ONNX models, all of them or one precision")  # fmt: skip
    return parser


if __name__ == "__main__":
    exit_after_fault(main())
