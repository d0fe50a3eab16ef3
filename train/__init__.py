"""Fine-tunes XTTS on a voice: `setup.py` is a run from top to bottom, `trainer.py` its loop."""
