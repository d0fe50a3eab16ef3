"""Checkpoints: writes, prunes, verifies and resumes from them."""
