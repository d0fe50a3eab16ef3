"""Ends a run after a stall, a signal or a lost GPU without losing its state."""
