"""The verbs of `python -m train`, a module each, as `machine.extras` describes them."""
