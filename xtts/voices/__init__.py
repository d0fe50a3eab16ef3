"""Voices on disk: base models, exported voices, and the checkpoints of run folders."""
