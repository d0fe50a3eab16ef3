"""The commands of `python -m xtts`, one module each, with the interface in `machine.extras`."""
