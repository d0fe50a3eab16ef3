"""A text to be spoken, whoever's request it came in, and how its sound is sent."""
