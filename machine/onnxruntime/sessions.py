"""Opens ONNX Runtime sessions; each says on which provider it runs.

ONNX Runtime falls back to the CPU without a word that a program could read, so a provider is first
tried in a child (`machine.onnxruntime.inspection`), then judged (`placement`), and only one that
computes is asked for here. torch is not needed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from machine.errors import SotaqueError
from machine.onnxruntime import inspection, placement
from machine.onnxruntime.inspection import OnnxSurroundings, Trial
from machine.onnxruntime.placement import Refusal, SessionStatus
from machine.onnxruntime.providers import CPU, ProviderRequest, wish_of
from machine.onnxruntime.trial_child import load_libraries, placed, recording


@dataclass(frozen=True)
class OnnxSessionOptions:
    """threads: that one node computes with, 0 = as many as cores of the machine; it does not see a
    container's limit. spinning: whether threads wait awake, which costs a core. arena: whether
    memory that was used is kept; pattern: whether it is planned ahead by the first inputs' sizes.
    prepacking: whether weights are copied into the order that products like best. optimisation: how
    much a graph is rewritten, by its name in `onnxruntime.GraphOptimizationLevel`.

    The defaults are for a machine that does other work too.
    """

    threads: int = 0
    spinning: bool = False
    arena: bool = True
    pattern: bool = True
    prepacking: bool = True
    optimisation: str = "ORT_ENABLE_ALL"


class RuntimeMissing(SotaqueError):
    """ONNX Runtime is not installed, or cannot be imported."""


class ModelRefused(SotaqueError):
    """ONNX Runtime cannot open this model on the CPU either; the sentence says why."""


@dataclass(frozen=True)
class OpenedSession:
    """session: `onnxruntime.InferenceSession`, to be run; status: where it computes, and why."""

    session: Any
    status: SessionStatus


@dataclass(frozen=True)
class Looks:
    """How the machine is seen; tests stand others here."""

    surroundings: Callable[[], OnnxSurroundings] = inspection.surroundings
    trial: Callable[[ProviderRequest], Trial] = inspection.trial


def open_session(
    model: Path | bytes,
    wish: str = "auto",
    options: OnnxSessionOptions | None = None,
    looks: Looks | None = None,
) -> OpenedSession:
    """A session of a model, on what was wished where that works, else on the CPU; `status` says
    which and why.

    wish: auto, cuda, cuda:1, rocm, directml, openvino, openvino:GPU, cpu. Raises
    SotaqueError for another, RuntimeMissing, and ModelRefused for a model that does not
    open on the CPU.
    """
    wished = wish_of(wish)
    onnxruntime = runtime()
    looks = looks or Looks()
    got, refusal = choose(wished, looks)
    session: Any = None
    if got.kind != "cpu":
        provider = looks.trial(got).provider
        load_libraries(onnxruntime, provider)
        try:
            session = _open(onnxruntime, model, options, [(provider, got.options()), CPU])
        except Exception as error:  # its own kinds derive from Exception alone
            refusal, got = placement.refused_model(got, str(error)), ProviderRequest("cpu")
    if session is None:
        try:
            session = _open(onnxruntime, model, options, [CPU])
        except Exception as error:
            name = "This model" if isinstance(model, bytes) else str(model)
            message = " ".join(str(error).split())[:400]
            raise ModelRefused(f"{name} cannot be opened by ONNX Runtime: {message}") from error
    active = session.get_providers()[0]
    return OpenedSession(session, placement.status(wished, got, active, placed(session), refusal))


def choose(wished: ProviderRequest, looks: Looks) -> tuple[ProviderRequest, Refusal | None]:
    """What to open the session for: the wish, or the CPU with the reason; `auto` takes the first
    that computes of those that this build is for."""
    if wished.kind == "cpu":
        return wished, None
    seen = looks.surroundings()
    auto = wished.kind == "auto"
    wishes = [ProviderRequest(kind) for kind in inspection.present(seen)] if auto else [wished]
    refused = []
    for one in wishes:
        refusal = placement.judge_trial(one, seen, looks.trial(one))
        if refusal is None:
            return one, None
        refused.append(refusal)
    return ProviderRequest("cpu"), placement.judge_auto(seen, refused) if auto else refused[0]


def runtime() -> Any:
    """The package `onnxruntime`. Raises RuntimeMissing."""
    try:
        import onnxruntime
    except ImportError as error:
        raise RuntimeMissing(
            f"ONNX Runtime cannot be imported ({error}). Install it: .venv/bin/uv pip install "
            "onnxruntime (or onnxruntime-gpu with an NVIDIA GPU)."
        ) from error
    return onnxruntime


def _open(
    onnxruntime: Any, model: Path | bytes, options: OnnxSessionOptions | None, providers: list[Any]
) -> Any:
    made = recording(onnxruntime, session_options(onnxruntime, options or OnnxSessionOptions()))
    given = model if isinstance(model, bytes) else str(model)
    # Without its own fallback, which prints and goes on: the reason would be lost.
    return onnxruntime.InferenceSession(given, made, providers, enable_fallback=0)


def session_options(onnxruntime: Any, wanted: OnnxSessionOptions) -> Any:
    """`onnxruntime.SessionOptions` for these."""
    made = onnxruntime.SessionOptions()
    made.intra_op_num_threads = wanted.threads
    made.inter_op_num_threads = 1
    made.enable_cpu_mem_arena = wanted.arena
    made.enable_mem_pattern = wanted.pattern
    made.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, wanted.optimisation)
    made.add_session_config_entry("session.intra_op.allow_spinning", str(int(wanted.spinning)))
    made.add_session_config_entry("session.disable_prepacking", str(int(not wanted.prepacking)))
    # Without VNNI (AVX2 alone) the products of unsigned by signed bytes saturate at 16 bits: logits
    # were off by 3.9 % instead of 1 %. With this entry ONNX Runtime turns the weights into unsigned
    # bytes there; where nothing saturates, it changes nothing.
    made.add_session_config_entry("session.x64quantprecision", "1")
    # Silent: what fails is raised, and a warning for each node that is normally on the CPU helps
    # nobody who serves.
    made.log_severity_level = 4
    return made
