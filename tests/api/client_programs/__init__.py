"""Programs of `tests/api/test_client_libraries.py`, each with a real library in a separate
environment.

`PROGRAM ADDRESS WYOMING_PORT TEXT FOLDER` speaks TEXT and writes each sound to FOLDER/NAME.FORMAT.
"""
