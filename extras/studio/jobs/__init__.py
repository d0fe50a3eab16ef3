"""The training queue: `python -m train queue` takes jobs and trains them, one after another."""
