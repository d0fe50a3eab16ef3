"""The calls to torch.cuda of a capture, in order."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from extras.graphs.capture import cuda_graph


class FakeCuda:
    """Records the calls of `cuda_graph` to torch.cuda, in order; a stream is its number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
        self.said: list[str] = []
        self.on, self.streams, self.fails = "own", 0, fails
        fakes = {
            "device": self.device,
            "Stream": self.new_stream,
            "stream": self.inside,
            "current_stream": lambda: SimpleNamespace(
                name=self.on, wait_stream=lambda other: self.said.append(f"wait {other.name}")
            ),
            "set_stream": self.set_stream,
            "CUDAGraph": lambda: SimpleNamespace(replay=None),
            "graph": self.graph,
            "graph_pool_handle": lambda: (0, 1),
            "current_device": lambda: 0,
            "default_generators": [
                SimpleNamespace(
                    clone_state=lambda: "kept",
                    graphsafe_set_state=lambda state: self.said.append(f"random {state}"),
                )
            ],
        }
        for name, fake in fakes.items():
            monkeypatch.setattr(torch.cuda, name, fake)

    @contextmanager
    def device(self, device: torch.device) -> Iterator[None]:
        self.said.append(f"on {device}")
        yield
        self.said.append("off")

    def new_stream(self) -> SimpleNamespace:
        self.streams += 1
        return SimpleNamespace(name=f"side {self.streams}", wait_stream=lambda _: None)

    @contextmanager
    def inside(self, stream: SimpleNamespace) -> Iterator[None]:
        before, self.on = self.on, stream.name
        yield
        self.on = before

    def set_stream(self, stream: SimpleNamespace) -> None:
        self.on = stream.name

    @contextmanager
    def graph(
        self, _graph: object, pool: object, stream: SimpleNamespace, capture_error_mode: str
    ) -> Iterator[None]:
        """Like torch 2.11: if ending the capture fails, the stream stays current."""
        self.said.append(f"capture {capture_error_mode} on {stream.name}")
        before, self.on = self.on, stream.name
        yield
        if self.fails:
            raise RuntimeError("CUDA error: operation failed due to a previous error")
        self.on = before


@pytest.mark.parametrize("fails", [False, True])
def test_a_capture_is_of_its_own_gpu_and_leaves_its_thread_on_its_stream(monkeypatch, fails):
    fake, ran = FakeCuda(monkeypatch, fails), list[str]()
    nothing = torch.zeros(1), torch.zeros(1)

    def compute() -> tuple[Tensor, Tensor]:
        ran.append(fake.on)
        return nothing

    with pytest.raises(RuntimeError, match="previous error") if fails else nullcontext():
        cuda_graph(compute, torch.device("cuda:1"))
    assert fake.said[0] == "on cuda:1"
    assert "capture thread_local on side 1" in fake.said
    assert ran == ["side 1"] * 3 and fake.on == "own"
    assert ("random kept" in fake.said) == fails
