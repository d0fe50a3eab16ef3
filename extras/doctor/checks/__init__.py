"""The doctor's checks: pure functions from readings to findings with remedies."""
