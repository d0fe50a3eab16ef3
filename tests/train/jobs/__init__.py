"""Tests of the training queue, with a training that takes no time."""

FAKE = "tests.train.jobs.fake_training"
