"""Datasets made of uploaded recordings: uploads, cuts, clips and their corrections."""
