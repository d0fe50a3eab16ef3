"""Modules that replace the children of the service's book queue (`tests/api/conftest.py`)."""

QUEUES = {"readings": "tests.extras.books.uploads.fake_reader"}
