"""THE LOOP, read top to bottom: step, log, evaluate, save, then sample.

Everything that it calls is put together in `train.setup`; each part is a file of its own name. A
checkpoint is written before its sample is spoken, so that a fault while speaking costs a sample and
never an epoch.
"""

import time

from train.resilience.stopping import StopRequest
from train.trainer_context import Parts


def fine_tune(parts: Parts, stop: StopRequest) -> int:
    """Trains from `parts.start` to the last epoch; returns the exit code.

    0 when all epochs are done; 143 or 130 when a signal came and the state was saved. A stop while
    validating is a stop inside the epoch: the next start validates, and saves it.
    Raises NonFiniteError (65) and DiskFull (74); what was saved before stays.
    """
    stop.learning = True
    for epoch in range(parts.start.epoch, parts.num_epochs + 1):
        done = parts.start.batch if epoch == parts.start.epoch else 0
        clock = time.perf_counter()
        for number, batch in parts.learned(epoch, done):
            waited = time.perf_counter() - clock
            result = parts.learn(epoch, done, batch)
            if result is None:  # too large: its clips come again in smaller batches
                continue
            stop.step_seconds = time.perf_counter() - clock
            parts.tell_step(epoch, number, batch, result, waited, stop.step_seconds)
            done = number
            if parts.stops(stop):
                parts.save_interrupted(epoch, done)
                return stop.exit_code
            parts.speak_what_is_saved()
            clock = time.perf_counter()
        validation = parts.evaluate(epoch, stop)
        if parts.stops(stop):
            parts.save_interrupted(epoch, done)
            return stop.exit_code
        parts.logs.epoch(epoch, parts.learner.step, validation)
        if parts.saves(epoch):
            stop.write_seconds = parts.save(epoch, validation)
            if parts.samples(epoch) and not parts.stops(stop):
                parts.speak(epoch)
            # An epoch that SAVE_EVERY leaves unsaved is saved behind the next one's first step.
            if parts.stops(stop):
                return stop.exit_code
        if parts.ends_early():
            break
    parts.finish()
    return 0
