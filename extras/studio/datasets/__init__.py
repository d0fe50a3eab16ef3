"""Datasets made in the studio: uploaded recordings and their cuts, takes, clips, corrections."""
