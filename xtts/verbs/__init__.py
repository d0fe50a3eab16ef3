"""The verbs of `python -m xtts`, a module each, as `machine.extras` describes them."""
