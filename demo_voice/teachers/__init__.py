"""The voices that the embedded model learned from."""
