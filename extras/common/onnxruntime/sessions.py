"""Opens ONNX Runtime sessions; each reports the provider on which it runs.

ONNX Runtime falls back to the CPU without telling the program. So a child first tries a provider
(`inspection`), `placement` judges the result, and only a provider that computes correctly is
requested here. torch is not needed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from extras.common.onnxruntime import inspection, placement
from extras.common.onnxruntime.inspection import OnnxSurroundings, Trial
from extras.common.onnxruntime.node_placement import load_libraries, node_counts, options_recording_placement
from extras.common.onnxruntime.placement import Refusal, SessionStatus
from extras.common.onnxruntime.providers import CPU, ProviderRequest, parse_provider
from machine import commands
from machine.errors import SotaqueError
from machine.onnxruntime import import_quietly

if TYPE_CHECKING:
    from extras.common.onnxruntime.types import Session, SessionOptions


@dataclass(frozen=True)
class OnnxSessionOptions:
    """Options of a session; the defaults suit a machine that does other work too.

    Attributes:
        threads: Threads for one node; 0 is the number of the machine's cores, without regard to a
            container's limit.
        spinning: Whether idle threads spin, which costs a core.
        arena: Whether used memory is kept.
        pattern: Whether memory is planned from the sizes of the first inputs.
        prepacking: Whether weights are copied into the layout that is fastest for products.
        optimisation: A name in `onnxruntime.GraphOptimizationLevel`.
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
    """ONNX Runtime cannot open this model, not even on the CPU; the text says why."""


@dataclass(frozen=True)
class OpenedSession:
    """An `onnxruntime.InferenceSession`, with where it computes and why."""

    session: "Session"
    status: SessionStatus


@dataclass(frozen=True)
class Inspectors:
    """The functions that inspect the machine; tests replace them."""

    read_surroundings: Callable[[], OnnxSurroundings] = inspection.read_surroundings
    try_request: Callable[[ProviderRequest], Trial] = inspection.try_request


def open_session(
    model: Path | bytes,
    provider: str = "auto",
    options: OnnxSessionOptions | None = None,
    inspectors: Inspectors | None = None,
) -> OpenedSession:
    """Opens a model on the requested provider, or on the CPU if that does not work.

    Args:
        model: A file, or its content.
        provider: auto, cuda, cuda:1, rocm, directml, openvino, openvino:GPU or cpu.
        options: Options of the session.
        inspectors: How to inspect the machine.

    Returns:
        The session; its `status` says where it computes and why.

    Raises:
        SotaqueError: `provider` is none of these.
        RuntimeMissing: ONNX Runtime is not installed.
        ModelRefused: The model does not open on the CPU.
    """
    request = parse_provider(provider)
    onnxruntime = runtime()
    inspectors = inspectors or Inspectors()
    chosen, refusal = choose(request, inspectors)
    session: Session | None = None
    if chosen.kind != "cpu":
        execution_provider = inspectors.try_request(chosen).provider
        load_libraries(onnxruntime, execution_provider)
        try:
            session = _open(onnxruntime, model, options, [(execution_provider, chosen.options()), CPU])
        except Exception as error:  # ONNX Runtime's own errors derive directly from Exception
            refusal, chosen = placement.model_refusal(chosen, str(error)), ProviderRequest("cpu")
    if session is None:
        try:
            session = _open(onnxruntime, model, options, [CPU])
        except Exception as error:
            name = "this model" if isinstance(model, bytes) else str(model)
            message = " ".join(str(error).split())[:400]
            raise ModelRefused(f"ONNX Runtime cannot open {name}: {message}") from error
    active = session.get_providers()[0]
    status = placement.session_status(request, chosen, active, node_counts(session), refusal)
    return OpenedSession(session, status)


def choose(request: ProviderRequest, inspectors: Inspectors) -> tuple[ProviderRequest, Refusal | None]:
    """Chooses the provider of a session: the requested one, or the CPU and why it was refused.

    `auto` takes the first provider of this build that computes correctly.
    """
    if request.kind == "cpu":
        return request, None
    surroundings = inspectors.read_surroundings()
    is_auto = request.kind == "auto"
    candidates = [request]
    if is_auto:
        candidates = [ProviderRequest(kind) for kind in inspection.available_kinds(surroundings)]
    refusals = []
    for candidate in candidates:
        refusal = placement.judge_trial(candidate, surroundings, inspectors.try_request(candidate))
        if refusal is None:
            return candidate, None
        refusals.append(refusal)
    if is_auto:
        return ProviderRequest("cpu"), placement.explain_auto_fallback(surroundings, refusals)
    return ProviderRequest("cpu"), refusals[0]


def runtime() -> ModuleType:
    """The package `onnxruntime`. Raises RuntimeMissing."""
    try:
        return import_quietly()
    except ImportError as error:
        raise RuntimeMissing(
            f"ONNX Runtime cannot be imported ({error}). Install it: "
            f"{commands.install('onnxruntime')} (or onnxruntime-gpu with an NVIDIA GPU)."
        ) from error


def _open(
    onnxruntime: ModuleType,
    model: Path | bytes,
    options: OnnxSessionOptions | None,
    providers: Sequence[str | tuple[str, dict[str, str]]],
) -> "Session":
    runtime_options = options_recording_placement(
        onnxruntime, session_options(onnxruntime, options or OnnxSessionOptions())
    )
    path_or_content = model if isinstance(model, bytes) else str(model)
    # ONNX Runtime's own fallback only prints and continues, so the reason would be lost.
    return onnxruntime.InferenceSession(path_or_content, runtime_options, providers, enable_fallback=0)


def session_options(onnxruntime: ModuleType, options: OnnxSessionOptions) -> "SessionOptions":
    """The same options as `onnxruntime.SessionOptions`."""
    runtime_options = onnxruntime.SessionOptions()
    runtime_options.intra_op_num_threads = options.threads
    runtime_options.inter_op_num_threads = 1
    runtime_options.enable_cpu_mem_arena = options.arena
    runtime_options.enable_mem_pattern = options.pattern
    runtime_options.graph_optimization_level = getattr(
        onnxruntime.GraphOptimizationLevel, options.optimisation
    )
    runtime_options.add_session_config_entry("session.intra_op.allow_spinning", str(int(options.spinning)))
    runtime_options.add_session_config_entry("session.disable_prepacking", str(int(not options.prepacking)))
    # On a CPU with AVX2 but without VNNI, products of unsigned by signed bytes saturate at 16 bits:
    # logits were off by 3.9 % instead of 1 %. This entry makes ONNX Runtime use unsigned weights on
    # such a CPU. It changes nothing elsewhere.
    runtime_options.add_session_config_entry("session.x64quantprecision", "1")
    # Errors are raised anyway, and a warning for each node that belongs on the CPU is noise.
    runtime_options.log_severity_level = 4
    return runtime_options
