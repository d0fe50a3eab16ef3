"""SotaqueError: the root of every error that a user can fix, with its exit code.

    SotaqueError                exit 2      the sentence says what, the value seen, what to do
    ├── raised by xtts.*        audio, bundle, settings, text, model, worker, atomic
    └── raised by train.*       dataset, features, checkpoints, learner

Entry points print the sentence without a traceback and exit with `exit_code`.
"""


class SotaqueError(Exception):
    """A fault with a sentence for the person who can mend it."""

    exit_code: int = 2
