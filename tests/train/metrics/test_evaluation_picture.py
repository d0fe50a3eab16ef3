"""The picture shows the figures: the ends of each interval, and which candidate is the best."""

from dataclasses import replace

import torch
from torch import Tensor

from tests.train.evaluation.spoken import base, candidate, facts, verdict_of
from tests.train.metrics.test_logs import curves, logs
from train.evaluation.judges import VOICE, WORDS
from train.metrics import evaluation_picture as drawn
from xtts.voices.evaluation_file import Evaluation


def evaluation() -> Evaluation:
    told, verdict = verdict_of(
        base(), candidate(facts(1, voice=0.8), epoch=1), candidate(facts(2, lost=0.3), epoch=2)
    )
    return Evaluation("", "en", {}, "set", {}, {}, {}, list(told.values()), verdict)


def pixels(image: Tensor, colour: tuple[int, int, int]) -> Tensor:
    """`[count, 2]`: row and column of each pixel with a colour."""
    wanted = torch.tensor(colour)[:, None, None]
    return ((image * 255).round() == wanted).all(0).nonzero()


def test_the_interval_of_the_best_one_stands_where_its_figures_are():
    found = evaluation()
    image = drawn.picture(found)
    assert image.shape == (3, 2 * drawn.PANEL_HEIGHT, drawn.WIDTH)
    assert found.verdict.epoch == 1
    voices = [one.judges[VOICE] for one in found.candidates]
    low, high = min(one.low for one in voices), max(one.high for one in voices)
    green = pixels(image, drawn.BEST)
    below = green[green[:, 0] >= drawn.PANEL_HEIGHT, 0]
    best = voices[1]
    rows = [drawn.row(end, low, high, drawn.PANEL_HEIGHT) for end in (best.high, best.low)]
    assert abs(int(below.min()) - rows[0]) <= 2 and abs(int(below.max()) - rows[1]) <= 2
    # The best is in the second of three columns; the ruled-out one, in red, is to its right.
    third = (drawn.WIDTH - drawn.LEFT) / 3
    assert abs(float(green[:, 1].float().mean()) - (drawn.LEFT + 1.5 * third)) < 2
    red = pixels(image, drawn.OUT)
    assert len(red) and int(red[:, 1].min()) > int(green[:, 1].max())
    # A figure that was not judged gets no panel.
    words = [replace(one, judges={WORDS: one.judges[WORDS]}) for one in found.candidates]
    assert drawn.picture(replace(found, candidates=words)).shape[1] == drawn.PANEL_HEIGHT


def test_tensorboard_has_it_beside_the_curves(tmp_path):
    found = evaluation()
    first = replace(found, candidates=found.candidates[:2])
    with logs(tmp_path) as told:
        told.evaluation(first, first.candidates[1])
    shown = curves(tmp_path)
    (image,) = shown.Images("evaluation/figure")
    assert (image.width, image.height) == (drawn.WIDTH, 2 * drawn.PANEL_HEIGHT)
    assert "evaluation/voice" in shown.Tags()["scalars"]


def test_the_base_is_the_first_point_of_a_curve_whichever_epoch_is_judged_first(tmp_path):
    """With SAVE_EVERY=2, epoch 1 is never judged."""
    found = evaluation()
    with logs(tmp_path) as told:
        told.evaluation(replace(found, candidates=[found.candidates[0], found.candidates[2]]),
                        found.candidates[2])  # fmt: skip
    assert [one.step for one in curves(tmp_path).Scalars("evaluation/voice")] == [0, 2]
