"""`python -m train check`: checks the dataset and trains nothing."""

import argparse

from train.settings import TrainSettings

SUMMARY = """check the sound and the text of the dataset; train nothing
--show-text      print how the transcripts are read
--no-likelihood  skip the slowest check
--verify         compare the feature cache with its hashes
--repair         compute damaged records of the feature cache again
--json           print what was found as JSON; the log goes to stderr"""
PURPOSE = "Checks the sound and the text of the dataset. Trains nothing."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    add = parser.add_argument
    add("--verify", action="store_true", help="compare the feature cache with its hashes")
    add("--repair", action="store_true", help="compute damaged records of the cache again")
    add(
        "--no-likelihood", action="store_true",
        help="skip the likelihood of each clip under the base model, the slowest check",
    )  # fmt: skip
    add("--show-text", action="store_true", help="print how the transcripts are read")
    add("--json", action="store_true", help="print the findings; the log goes to stderr")


def run(settings: TrainSettings, arguments: argparse.Namespace) -> int:
    """As `train.check.run`."""
    from train import check

    return check.run(settings, arguments)
