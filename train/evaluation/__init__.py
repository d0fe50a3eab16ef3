"""Judges the base, every epoch and their blends by fixed sentences; decides which is best, and why."""
