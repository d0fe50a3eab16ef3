"""Makes a voice. May import xtts, never api. `loop.py` is the table of contents."""
