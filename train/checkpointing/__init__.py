"""Checkpoints: write, prune, verify, resume."""
