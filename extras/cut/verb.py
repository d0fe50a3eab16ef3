"""`python -m train cut`: the options of the command."""

import argparse
from pathlib import Path

from train.settings import TrainSettings
from xtts.text.languages import tag_of

SUMMARY = """make a dataset from long recordings
RECORDING... --to DIR [--text FILE | --recogniser DIR] [--language L]
[--ray] [--workers N]"""
PURPOSE = "Cuts long recordings into clips with transcripts, and reports the parts left out."
USAGE = "RECORDING... --to DIR "


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    add = parser.add_argument
    add("recordings", nargs="*", type=Path, metavar="RECORDING", help="long recordings")
    add("--to", type=Path, metavar="DIR", help="the folder to write")
    add(
        "--text",
        type=Path,
        metavar="FILE",
        help="the text of the recordings: txt, or with times: srt, vtt, sbv, lab, TextGrid, "
        "Audacity's labels, Whisper's json and tsv. The shortest pause for a cut is 0.12 s "
        "with a text, and 0.5 s without",
    )
    add(
        "--recogniser",
        type=Path,
        metavar="DIR",
        help="a Whisper model that writes the transcripts, instead of --text",
    )
    add("--ray", action="store_true", help="compute on Ray; RAY_ADDRESS names a cluster")
    add("--workers", type=int, metavar="N", help="the number of Ray workers to start (default: all cores)")
    # Declared here: as a setting's flag its value would be parsed as a recording.
    add("--language", type=tag_of, metavar="L", help="the language of the recordings (default: LANGUAGE)")


def run(settings: TrainSettings, arguments: argparse.Namespace) -> int:
    """As `extras.cut.pipeline.run`."""
    from extras.common.steps import steps_for
    from extras.cut import pipeline

    asked = arguments
    return pipeline.run(
        settings,
        asked.recordings,
        asked.to,
        asked.text,
        asked.language or settings.language,
        asked.recogniser,
        steps_for(asked.ray, asked.workers),
    )
