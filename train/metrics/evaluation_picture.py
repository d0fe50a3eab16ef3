"""Draws an evaluation for TensorBoard: words, voice and naturalness with intervals.

All functions are pure.

A horizontal line marks the base's figure; the best candidate has another colour.
"""

from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor

from train.evaluation.judges import NATURALNESS, VOICE, WORDS
from xtts.voices.evaluation_file import Candidate, Evaluation, JudgeFigure

# Pixels.
WIDTH, PANEL_HEIGHT, LEFT, TOP, BOTTOM = 720, 240, 60, 30, 30
CAP, DOT = 6, 4
BACKGROUND, INK, FAINT, BEST, OUT = (
    (255, 255, 255), (40, 40, 60), (200, 200, 210), (0, 130, 90), (190, 60, 50),
)  # fmt: skip
Colour = tuple[int, int, int]


def picture(evaluation: Evaluation) -> Tensor:
    """Draws `[3, height, width]` from 0 to 1: a panel for each of words, voice and naturalness that
    was judged, with the candidates from left to right as in the table. A grey line marks the base;
    candidates that are ruled out are red, the best is green."""
    judged = [
        judge
        for judge in (WORDS, VOICE, NATURALNESS)
        if any(judge in one.judges for one in evaluation.candidates)
    ]
    image = Image.new("RGB", (WIDTH, max(1, len(judged)) * PANEL_HEIGHT), BACKGROUND)
    draw = ImageDraw.Draw(image)
    ordered = sorted(evaluation.candidates, key=lambda one: (one.epoch, -one.share))
    for number, judge in enumerate(judged):
        _panel(draw, number * PANEL_HEIGHT, judge, ordered, evaluation.best)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255


def colour_of(one: Candidate, best: Candidate | None) -> Colour:
    """The colour of a candidate's point."""
    if one is best:
        return BEST
    return OUT if one.ruled_out is not None else INK


def _panel(
    draw: ImageDraw.ImageDraw, top: int, judge: str, ordered: Sequence[Candidate],
    best: Candidate | None,
) -> None:  # fmt: skip
    figures = [one.judges.get(judge) for one in ordered]
    low = min(figure.low for figure in figures if figure is not None)
    high = max(figure.high for figure in figures if figure is not None)
    draw.text((LEFT, top + 8), f"{judge}, 95 % intervals", fill=INK)
    for value in (low, high):
        draw.text((8, row(value, low, high, top) - 6), f"{value:.2f}", fill=INK)
    step = (WIDTH - LEFT) / len(ordered)
    for number, (one, figure) in enumerate(zip(ordered, figures, strict=True)):
        column = round(LEFT + (number + 0.5) * step)
        draw.text((column - step / 2 + 2, top + PANEL_HEIGHT - 20), _label(one), fill=INK)
        if figure is None:
            continue
        if one.kind == "base":
            at = row(figure.mean, low, high, top)
            draw.line((LEFT, at, WIDTH, at), fill=FAINT)
        _point(draw, column, figure, (low, high, top), colour_of(one, best))


def _point(
    draw: ImageDraw.ImageDraw, column: int, figure: JudgeFigure, scale: tuple[float, float, int],
    colour: Colour,
) -> None:  # fmt: skip
    lower, upper, at = (row(value, *scale) for value in (figure.low, figure.high, figure.mean))
    draw.line((column, upper, column, lower), fill=colour, width=2)
    for end in (lower, upper):
        draw.line((column - CAP, end, column + CAP, end), fill=colour, width=2)
    draw.ellipse((column - DOT, at - DOT, column + DOT, at + DOT), fill=colour)


def row(value: float, low: float, high: float, top: int) -> int:
    """The pixel row of a value in the panel that begins at `top`."""
    share = (value - low) / max(high - low, 1e-6)
    return round(top + PANEL_HEIGHT - BOTTOM - share * (PANEL_HEIGHT - TOP - BOTTOM))


def _label(one: Candidate) -> str:
    return "base" if one.kind == "base" else one.name.removeprefix("epoch ").replace(" at ", ": ")
