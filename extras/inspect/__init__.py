"""Checks the sound and the text of each clip, for `train check` and SUSPECT_CLIPS."""

CLIPS = "extras.inspect.suspects"
