"""`python -m train sample`: speaks with a saved epoch.

Into `samples/on_demand/epoch_N_<hash>.wav`, with its reference and sidecar; the hash covers the
whole request. The samples of the run stay.
"""

import argparse
import logging

from machine.storage.files import read_json
from train.settings import TrainSettings

log = logging.getLogger("train")

SUMMARY = "speak a sentence with the newest epoch, or --epoch N"
PURPOSE = "Speaks with a saved epoch."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    parser.add_argument("--epoch", type=int, metavar="N", help="the epoch (default: the newest)")


def run(settings: TrainSettings, arguments: argparse.Namespace) -> int:
    """Speaks. Raises RunError if nothing can speak, and as `speaking`."""
    from train.sampling.samples import sample_on_demand
    from train.saved_run import saved_epoch, speaking
    from xtts.voices.run_folder import RunError, RunFolder

    folder = RunFolder(settings.output_dir)
    chosen = saved_epoch(folder, arguments.epoch)
    with speaking(settings, folder) as (_, samples):
        plan, reference = samples.sampler.plan, samples.reference
        files = sample_on_demand(
            folder,
            chosen.epoch,
            (
                chosen.sha256,
                reference.text,
                reference.language,
                str(reference.path),
                settings.seed,
                plan.mode,
                plan.device,
                settings.speak_precision,
                settings.guard,
            ),
        )
        files.sidecar.unlink(missing_ok=True)
        samples.speak_on_demand(chosen.epoch, chosen.checkpoint, chosen.sha256, files)
    if read_json(files.sidecar).get("mode", "skipped") == "skipped":
        raise RunError(f"Epoch {chosen.epoch} could not speak. The log above gives the reason.")
    log.info("Epoch %d speaks in %s", chosen.epoch, files.output)
    return 0
