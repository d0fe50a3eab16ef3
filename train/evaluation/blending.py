"""Ends an evaluation: judges blends, trains the decoder, writes best.pt, speaks the best sample.

best.pt is written only if a blend is best. Called when a run ends and by `python -m train
evaluate`. Each part first checks the files on disk, so it can be repeated after a kill.
"""

import logging
from contextlib import nullcontext
from pathlib import Path

from machine.devices.cuda_errors import GpuLost
from train.checkpointing.checkpoints import Checkpoints
from train.evaluation import report
from train.evaluation.evaluator import Evaluator
from train.evaluation.person_decoder import RUN_SECONDS, keep_best_decoder
from train.evaluation.speakers import MOST_SPEAKERS, SPEAKER_SECONDS, judge_speakers
from train.progress import Progress
from train.settings import TrainSettings
from xtts.model.config import ModelConfig
from xtts.model.loading import blend, read_tensors
from xtts.voices.evaluation_file import Verdict
from xtts.voices.run_folder import read_checkpoint
from xtts.workers.decoder_learning import STEPS

log = logging.getLogger("train")

# Interpolation weights of BLEND=auto, the largest first.
AUTO_SHARES = (0.7, 0.5, 0.3)


def shares_of(blend: float | str) -> tuple[float, ...]:
    """The shares that BLEND names, without 1, which is the epoch itself."""
    if blend == "off":
        return ()
    shares = AUTO_SHARES if blend == "auto" else (float(blend),)
    return tuple(share for share in shares if share < 1)


def conclude(evaluator: Evaluator, settings: TrainSettings, base: Path) -> None:
    """Judges missing epochs, the blends and each speaker, keeps the best, speaks its sample and
    logs the table.

    base: the base model's folder. Raises only GpuLost.
    """
    if not evaluator.working:
        return
    shares = shares_of(settings.blend)
    count = evaluator.num_left(shares)
    if evaluator.in_run and count:
        each = evaluator.candidate_seconds
        took = f", about {each:.0f} s each" if each else ""
        left = f"{count} more candidate{'s' if count > 1 else ''}"
        log.info("The epochs are trained. Next: judging %s%s.", left, took)
    with Progress("Judging", count, "candidates") if count else nullcontext() as progress:
        evaluator.progress = progress
        evaluator.judge_missing()
        evaluator.blends(shares)
        evaluator.sampler.finish()
    known = evaluator.run.evaluation()
    verdict = known.verdict if known else None
    if known is None or verdict is None:
        return
    try:
        # Before best.json names the weights: the service loads both together.
        keep_best_decoder(evaluator, verdict, settings)
        known = judge_speakers(evaluator, known, settings)
        keep_best_blend(evaluator.checkpoints, verdict, base)
        if best := evaluator.run.best_weights():
            evaluator.sampler.sample_best(best)
            evaluator.sampler.finish()
    except GpuLost:
        raise
    except Exception as error:
        log.warning("The best weights could not be saved: %s", error)
    log.info("Evaluation of the run (docs/evaluation.md):\n%s", report.table(known))


def seconds_left(evaluator: Evaluator, settings: TrainSettings, epochs: int) -> float:
    """The estimated time to judge `epochs` more epochs and to end the evaluation."""
    if not evaluator.working:
        return 0.0
    each, blends = evaluator.candidate_seconds, len(shares_of(settings.blend))
    if evaluator.is_slow:
        epochs, blends = min(epochs, 1), min(blends, 1)
    decoder = 0.0
    if settings.learn_decoder != "off":
        # The sentences are spoken with the trained and with the base's decoder.
        decoder = 2 * each + min(RUN_SECONDS, STEPS * evaluator.sampler.decoder_step_seconds)
    speakers = min(MOST_SPEAKERS, len(evaluator.plan.others))
    return (epochs + blends) * each + decoder + speakers * min(SPEAKER_SECONDS, 2 * each + decoder)


def keep_best_blend(checkpoints: Checkpoints, verdict: Verdict, base: Path) -> None:
    """Writes best.pt if the verdict is a blend that is not on disk yet, then best.json.

    Raises RunError, ConfigError, DiskFull, WriteError.
    """
    run = checkpoints.run
    if verdict.kind == "blend" and isinstance(fault := run.look_at_best(verdict), str):
        best = run.read_best()
        if (best.get("kind"), best.get("epoch")) == ("blend", verdict.epoch):  # it existed
            log.warning("%s It is written again from epoch %d.", fault, verdict.epoch)
        tuned = read_checkpoint(run.checkpoint_path(verdict.epoch))
        unlearned = ModelConfig.read(base).unlearned
        state = blend(read_tensors(base / "model.pth"), tuned.model, verdict.share, unlearned)
        checkpoints.save_blend(verdict, state, tuned.provenance)
    checkpoints.publish_best()
