"""`python -m train evaluate`: judges a run that is there already, or what a run left out.

Without a time limit: a run whose first evaluation is this one speaks every sentence of the set. Any
later one speaks as many as the first.
"""

import json
import logging
import sys
from dataclasses import asdict

from train.checkpointing.checkpoints import Checkpoints
from train.evaluation.blending import conclude
from train.evaluation.evaluator import Evaluator
from train.evaluation.plan import plan_of, warn_of_few_clips
from train.evaluation.report import line
from train.sampling.sampler import speaking_sampler
from train.settings import TrainSettings
from train.setup import context_of_run
from xtts.voices.run_folder import RunError, RunFolder

log = logging.getLogger("train")


def run(settings: TrainSettings, *, as_json: bool) -> int:
    """Judges what is not judged yet, prints the table, or JSON. Raises RunError where there is
    nothing to judge or a trainer is at work, SotaqueError for a run of another dataset or base."""
    folder = RunFolder(settings.output_dir)
    newest = folder.newest_whole()
    if newest is None:
        raise RunError(f"{folder.folder} holds no epoch yet; `make train` makes one.")
    with folder.lock():
        context = context_of_run(settings, folder)
        sampler = speaking_sampler(settings, context, folder)
        warn_of_few_clips(context.data)
        with sampler:
            evaluator = Evaluator(
                plan_of(settings, context.data, sampler.reference, dict(newest.manifest.base)),
                sampler,
                Checkpoints(folder, settings.keep_checkpoints, settings.save_every),
                lambda evaluation, candidate: log.info(line(evaluation, candidate)),
            )
            conclude(evaluator, settings.blend, context.base, learn_decoder=settings.learn_decoder)
    known = folder.evaluation()
    if known is None:
        raise RunError("Nothing could be judged; the reason stands above.")
    if as_json:
        sys.stdout.write(json.dumps(asdict(known), indent=2, ensure_ascii=False) + "\n")
    return 0
