"""Tests of the training queue with a training that takes no time."""

FAKE = "tests.extras.studio.jobs.fake_training"
