"""A stage's clock, learning rate and snapshots."""

import torch
from torch import nn

from demo_voice import stages
from demo_voice.recipe import StageSchedule
from demo_voice.stages import Clock

STAGE = StageSchedule(1.0, 1, 1.0)


def test_the_rate_rises_stays_and_falls():
    rates = [stages.learning_rate(*at, STAGE) for at in ((0, 0.0), (99, 0.1), (5000, 0.7), (9000, 1.0))]
    assert rates[0] < 0.02 and rates[1] == 1.0 and rates[1] > rates[2] > rates[3] == 0.02


def test_a_stage_goes_on_where_it_was_stopped(tmp_path):
    path, net = tmp_path / "net.pt", nn.Linear(1, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    seen: list[int] = []

    def step_of(step: int) -> list[torch.Tensor]:
        seen.append(step)
        loss = net(torch.ones(1, 1)).square().sum()
        stages.descend(loss, [optimizer], net)
        return [loss]

    parts: dict[str, stages.Stateful] = {"net": net, "optimizer": optimizer}
    for _ in range(3):
        stages.learn(path, STAGE, Clock(0.0), parts, step_of, lambda means: f"{means[0]:.2f}")
    assert seen == [0, 1, 2]
    weight = net.weight.detach().clone()
    net.reset_parameters()
    step, seconds = stages.resume(path, {"net": net, "unknown": net})
    assert step == 3 and seconds > 0
    torch.testing.assert_close(net.weight, weight)


def test_time_of_earlier_runs_counts():
    clock = Clock(10.0, earlier=9.0)
    assert 0.9 <= clock.share < 1.0
    assert Clock(0.0).share == 1.0 or Clock(0.0).passed >= 0
