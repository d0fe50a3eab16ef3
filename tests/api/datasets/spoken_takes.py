"""Takes of sentences that flite's awb reads: those of `benchmarks.takes`."""

from benchmarks.takes import RATE, good, in_a_room, spoken

__all__ = ["RATE", "good", "in_a_room", "spoken"]
