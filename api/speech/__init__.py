"""From a speech request in any dialect to the audio that is sent."""
