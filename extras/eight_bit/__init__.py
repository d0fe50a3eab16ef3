"""OPTIMIZER=adamw8bit: an AdamW whose averages take one byte a value instead of four."""

OPTIMIZER = "extras.eight_bit.adamw"
