"""Voices on disk: base models, bundles, and the checkpoints of run folders."""
