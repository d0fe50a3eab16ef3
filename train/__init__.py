"""Makes a voice. May import xtts, never api. `trainer.py` is the table of contents."""
