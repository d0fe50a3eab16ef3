"""The constants of training a person's decoder: how long, at which rates, with which weights.

Measured with the prototype of this learner on the base of 2026-11: 150 steps suit 3 to 4 minutes of
clips (similarity 0.15 to 0.46 of 0.79 at the same naturalness); 300 steps at twice the rate are
nearer and less natural; with eleven clips, 150 steps cost naturalness. A base may recommend its own
steps and rate in config.json (`TrainingAdvice`): the embedded one learns as much in a quarter of
the steps at four times the rate (docs/develop/log.md). Nothing here depends on NUM_EPOCHS or on
the time: a run that is killed and resumed, or that is continued with more epochs, takes the same
steps.
"""

import math

# All steps for some minutes of a person's clips: STEPS * minutes ** GROWTH. Eight clips (0.4
# minutes) take 41 steps, 3.5 minutes 149, 12 minutes 311.
STEPS, GROWTH = 70.0, 0.6
MIN_STEPS, MAX_STEPS = 24, 400
# The first epochs of a run share the steps equally; later epochs take no more.
EPOCHS = 4
# Steps in which only the discriminators learn, if the base brings none, and their channels.
WARM_UP, CHANNELS = 60, 16
# Rows of a step; a row is 0.93 s (`xtts.workers.decoder_clips`).
BATCH = 4
LEARNING_RATE, DISCRIMINATOR_RATE, BETAS = 1e-4, 2e-4, (0.8, 0.99)
MEL_WEIGHT, MATCHING_WEIGHT, PITCH_WEIGHT = 15.0, 2.0, 15.0
MAX_NORM = 50.0
# The decoder that speaks is an average over the last steps: about a ninth of all so far.
AVERAGE_SHARE = 9.0
# Held-out clips are compared every CHECK_EVERY steps: at XTTS-v2's size, eight of them take as long
# as three steps. Training ends when PATIENCE comparisons in a row were not closer than the closest
# so far, by this share of the base's distance.
CHECK_EVERY, PATIENCE, MIN_GAIN = 20, 2, 1e-3


def steps_for(minutes: float, minute_steps: float = STEPS) -> int:
    """All steps for some minutes of a person's clips. minute_steps: the steps for one minute."""
    steps = math.ceil(minute_steps * max(minutes, 0.0) ** GROWTH)
    return min(MAX_STEPS, max(MIN_STEPS, steps))


def steps_until(epoch: int, minutes: float, minute_steps: float = STEPS) -> int:
    """The steps that are done at the end of an epoch (from 1)."""
    every = steps_for(minutes, minute_steps)
    return min(every, epoch * -(-every // EPOCHS))


def average_decay(step: int) -> float:
    """The share of the average that stays at a step (from 1)."""
    return max(0.0, 1 - AVERAGE_SHARE / (step + AVERAGE_SHARE))
