"""How the embedded voice was trained: `make demo-voice` = `python -m demo_voice`.

Each module is one stage; `__main__` runs them in order, and each resumes where it was stopped.
"""
