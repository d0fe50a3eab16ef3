"""Writes, prunes and verifies checkpoints, and resumes from them."""
