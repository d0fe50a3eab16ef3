"""Measures of spoken sentences: word evidence, pitch, recognised words and spectral distance."""
