"""The verbs doctor, monitor and explain of `python -m xtts`: options, and what they become."""
