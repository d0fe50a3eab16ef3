"""What `tests/api/test_client_libraries.py` runs, each with a real library in an environment of its
own: `PROGRAM ADDRESS WYOMING_PORT TEXT FOLDER` speaks TEXT and leaves each sound in FOLDER as
`NAME.FORMAT`."""
