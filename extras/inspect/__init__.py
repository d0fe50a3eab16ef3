"""Checks the sound and the text of each clip, for `train check` and SUSPECT_CLIPS."""

SETTINGS = "extras.inspect.settings"
CLIPS = "extras.inspect.suspects"
