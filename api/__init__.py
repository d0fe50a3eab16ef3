"""Speaks over HTTP. May import xtts, never train."""
