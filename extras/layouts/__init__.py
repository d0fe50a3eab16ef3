"""Reads datasets in the layouts of other tools, and guesses columns that no header names."""

LAYOUTS = "extras.layouts.reading"
