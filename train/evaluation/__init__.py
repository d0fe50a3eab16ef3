"""Judges the base, every epoch and their blends on fixed sentences, and decides which is best."""
