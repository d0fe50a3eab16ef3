"""Modules that stand for the children of the service's queue of books (`tests/api/conftest.py`)."""

QUEUES = {"readings": "tests.extras.books.uploads.fake_reader"}
