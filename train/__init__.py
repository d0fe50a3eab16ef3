"""Fine-tunes XTTS on a voice: `setup.py` runs it from start to end, `trainer.py` is its loop."""
