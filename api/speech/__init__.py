"""From a request to speak, in whichever dialect, to the sound that is sent."""
