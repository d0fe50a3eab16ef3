"""The demo dataset, and the script that made it."""
