"""Looks at the sound and the text of each clip together: `train check`, SUSPECT_CLIPS."""
