"""THE LOOP, read top to bottom: step, log, evaluate, save, then sample.

Everything that it calls is put together in `train.parts`; each part is a file of its own name.
A checkpoint is written before its sample is spoken, so that a fault while speaking costs a sample
and never an epoch.
"""

import time

from train.parts import Parts
from train.stopping import Stop


def fine_tune(parts: Parts, stop: Stop) -> int:
    """Trains from `parts.start` to the last epoch; returns the exit code.

    0 when all epochs are done; 143 or 130 when a signal came and the state was saved.
    Raises NonFiniteError (65) and DiskFull (74); what was saved before stays.
    """
    learner, batches, logs = parts.learner, parts.batches, parts.logs
    for epoch in range(parts.start.epoch, parts.num_epochs + 1):
        first = parts.start.batch if epoch == parts.start.epoch else 0
        clock = time.perf_counter()
        for number, batch in enumerate(batches.epoch(epoch, first), start=first + 1):
            waited = time.perf_counter() - clock
            result = learner.learn(batch)
            step_seconds = time.perf_counter() - clock
            logs.step(epoch, number, learner.step, batch, result, waited, step_seconds)
            stop.step_seconds = step_seconds
            if stop.requested:
                parts.save_interrupted(epoch, number)
                return stop.exit_code
            clock = time.perf_counter()

        validation = learner.evaluate(parts.validation.epoch(epoch)) if parts.validation else None
        logs.epoch(epoch, learner.step, validation)
        if parts.saves(epoch):
            saved = parts.save(epoch, validation)
            stop.write_seconds = saved.seconds
            if parts.samples(epoch):
                logs.sample(epoch, learner.step, parts.sampler.sample(epoch, saved))
        if stop.requested:
            return stop.exit_code
    return 0
