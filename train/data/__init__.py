"""The demo dataset, and what every evaluation speaks."""
