"""`python -m xtts explain`: the options of the command."""

import argparse
from pathlib import Path

SUMMARY = "show where each node of an ONNX model runs, and why"
USAGE = "MODEL.onnx "


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    parser.add_argument("model", type=Path, metavar="MODEL.onnx")
    parser.add_argument("--run", action="store_true", help="also run the model, on generated inputs")
    parser.add_argument("--provider", default="auto", help="auto, cuda, rocm, openvino, cpu, …")
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=1,80,200",
        help="the shape of an input, for --run",
    )
    parser.add_argument("--json", action="store_true", help="print JSON with stable names")


def run(arguments: argparse.Namespace) -> int:
    """As `extras.doctor.explain.explanation.run`."""
    from extras.doctor.explain import explanation

    return explanation.run(
        arguments.model,
        arguments.provider,
        runs=arguments.run,
        shapes=arguments.shape,
        as_json=arguments.json,
    )
