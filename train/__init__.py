"""Fine-tunes XTTS on a person's voice. `trainer.py` is the place to start reading."""
