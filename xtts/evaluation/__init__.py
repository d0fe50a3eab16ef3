"""Measures of a judged voice, taken in the process that speaks: word evidence and pitch."""
