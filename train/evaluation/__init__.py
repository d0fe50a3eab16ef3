"""Judges the base, every epoch and their blends by fixed sentences; which is best, and why."""
