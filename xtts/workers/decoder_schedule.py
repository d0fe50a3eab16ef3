"""The constants of training a person's decoder: how long, at which rates, with which weights.

Measured with the prototype of this learner on the base of 2026-11: 150 steps suit 3 to 4 minutes of
clips (similarity 0.15 to 0.46 of 0.79 at the same naturalness); 300 steps at twice the rate are
nearer and less natural; with eleven clips, 150 steps cost naturalness. A base may recommend its own
steps and rate in config.json (`TrainingAdvice`), as the embedded one does, which learns at four
times the rate (docs/develop/log.md). Nothing here depends on NUM_EPOCHS or on the time: a run that
is killed and resumed, or that is continued with more epochs, takes the same steps.
"""

import math

from xtts.model.config import DecoderSteps

# Eight clips (0.4 minutes) take 41 steps, 3.5 minutes 149, 12 minutes 311.
DEFAULT_STEPS = DecoderSteps()
MIN_STEPS = 24
# The first epochs of a run share the steps equally; later epochs take none.
TRAINING_EPOCHS = 4
# Steps in which only the discriminators learn, if the base brings none.
WARM_UP_STEPS = 60
# Channels of discriminators that the base does not bring.
DISCRIMINATOR_CHANNELS = 16
# A row is 0.93 s (`xtts.workers.decoder_clips`).
ROWS_PER_STEP = 4
LEARNING_RATE, DISCRIMINATOR_RATE, BETAS = 1e-4, 2e-4, (0.8, 0.99)
MEL_WEIGHT, MATCHING_WEIGHT, PITCH_WEIGHT = 15.0, 2.0, 15.0
MAX_GRADIENT_NORM = 50.0
# The decoder that speaks is an average over the last steps: about a ninth of all so far.
STEPS_PER_AVERAGED_STEP = 9.0
# At XTTS-v2's size, a check of eight held-out clips takes as long as three steps.
STEPS_PER_CHECK = 20
# Training ends after this number of checks in a row without an improvement.
MAX_FRUITLESS_CHECKS = 2
# The smallest decrease of the distance that counts as an improvement, as a share of the base's distance.
MIN_IMPROVEMENT = 1e-3


def steps_for(minutes: float, rule: DecoderSteps = DEFAULT_STEPS) -> int:
    """The number of steps for some minutes of a person's clips."""
    steps = math.ceil(rule.per_minute * max(minutes, 0.0) ** rule.exponent)
    return min(rule.most, max(MIN_STEPS, steps))


def steps_until(epoch: int, minutes: float, rule: DecoderSteps = DEFAULT_STEPS) -> int:
    """The number of steps until the end of an epoch (from 1)."""
    all_steps = steps_for(minutes, rule)
    return min(all_steps, epoch * -(-all_steps // TRAINING_EPOCHS))


def average_decay(step: int) -> float:
    """The share of the previous average in the new one, at a step (from 1)."""
    return max(0.0, 1 - STEPS_PER_AVERAGED_STEP / (step + STEPS_PER_AVERAGED_STEP))
