"""This computer: what it can do, and why. Knows no model."""
