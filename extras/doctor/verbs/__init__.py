"""The commands doctor, monitor and explain of `python -m xtts`."""
