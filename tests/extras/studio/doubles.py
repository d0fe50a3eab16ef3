"""Modules that replace the children of the studio's queues (`tests/api/conftest.py`)."""

QUEUES = {"cuts": "tests.extras.studio.datasets.fake_cut", "trainings": "tests.api.runs.fake_train"}
