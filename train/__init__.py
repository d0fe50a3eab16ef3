"""Fine-tunes XTTS on a voice: `setup.py` runs a training, `trainer.py` holds its loop."""
