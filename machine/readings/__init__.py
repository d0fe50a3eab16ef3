"""Readings of this machine: drivers, files, programs and libraries, without judgement."""
