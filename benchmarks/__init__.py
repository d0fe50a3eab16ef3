"""Benchmarks of Sotaque against Coqui in one run, and the judges of the embedded voice."""
