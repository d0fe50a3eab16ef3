"""Limits and options of the engine: slots, queue length, deadlines, device, backend."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from api.engine import child as children
from machine.devices.selection import Environment, look_at_machine
from xtts.inference.compute_config import ComputeConfig


@dataclass(frozen=True)
class EngineLimits:
    """In seconds, but for the first two. ready: how fresh the last word must be; micro: after how
    much silence the service tries itself; preview: after how much silence a voice that is not
    served is closed."""

    slots: int | None = None
    queue: int = 32
    deadline: float = 30.0
    hang: float = 30.0
    start: float = 180.0
    ready: float = 60.0
    micro: float = 20.0
    preview: float = 120.0

    @property
    def guess(self) -> float:
        """Who is expected to wait longer is refused at once, so that few are dropped later because
        a guess was wrong."""
        return 0.6 * self.deadline

    @property
    def turn(self) -> float:
        """Who has waited longer is dropped: the first sound takes time too."""
        return 0.85 * self.deadline


@dataclass(frozen=True)
class ChildOptions:
    """What a child is started with. compute: its device is the one wished for. command and look:
    others in tests."""

    compute: ComputeConfig = field(default_factory=lambda: ComputeConfig("auto"))
    command: tuple[str, ...] = children.COMMAND
    look: Callable[[], Environment] = field(default=lambda: look_at_machine(use_cache=False))


@dataclass(frozen=True)
class VoiceTarget:
    """A voice on disk, as `xtts.voices.voice_files.VoiceSpec` takes it, and the name it goes
    by. decoder: the digest of the one that was learned for it, and is opened with it
    (`xtts.voices.learned_decoder`); "" for none."""

    name: str
    wanted: Mapping[str, Any]
    decoder: str = ""


DEMO = VoiceTarget("demo", {"name": "demo"})


@dataclass(frozen=True)
class OpenedVoiceState:
    """The voice that speaks, and what the child said of it. placed: where ONNX Runtime computes it
    and why there, as `machine.onnxruntime.sessions.SessionStatus`; empty with torch. slots: fewer
    than were asked for, where a GPU's memory decides."""

    key: str
    voice: VoiceTarget
    licence: str = ""
    languages: tuple[str, ...] = ()
    sha256: str = ""
    own_voice: bool = True
    precision: str = ""
    placed: Mapping[str, Any] = field(default_factory=dict)
    slots: int | None = None

    @property
    def trouble(self) -> tuple[str, str]:
        """Why it speaks but not as itself, and the code of that; empty where it does."""
        if self.own_voice:
            return "", ""
        return "This voice has no recording of its own: ask for an uploaded voice", "no_reference"
