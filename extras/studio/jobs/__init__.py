"""The training queue: `python -m train queue` trains its jobs, one after another."""
