"""Raw evidence about ONNX Runtime and one attempt to use a provider.

`known` and `active` are what an attempt showed. `get_available_providers()` is never asked: it
lists what a build was compiled for, CUDA on machines that have none too (measured with 1.31.1;
microsoft/onnxruntime#23372).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class OnnxSurroundings:
    """packages: builds that are installed -> version; build: which of them answers; cuda,
    torch_cuda: "13.0", what it and torch are built for; libraries: the providers' files that the
    build brings; gpus: kinds of GPU that the system shows ("nvidia", "amd", "intel"); driver:
    version of NVIDIA's kernel module; hint: a sentence about a GPU out of reach."""

    packages: Mapping[str, str] = field(default_factory=dict)
    build: str = ""
    cuda: str = ""
    torch_cuda: str = ""
    libraries: frozenset[str] = frozenset()
    gpus: frozenset[str] = frozenset()
    driver: str = ""
    system: str = "linux"
    distribution: tuple[str, ...] = ()
    in_container: bool = False
    hint: str = ""


@dataclass(frozen=True)
class Trial:
    """One attempt in a child: two products on a provider, compared with the CPU's.

    known: the build knows the provider; active: the session's own list, in its order; nodes:
    provider -> how many of the nodes it took; distance: largest difference to the CPU's result;
    log: all that was written to file descriptors 1 and 2; fault: what was raised; ending: "" or how
    the child ended instead of answering.
    """

    provider: str
    known: bool = True
    active: tuple[str, ...] = ()
    nodes: Mapping[str, int] = field(default_factory=dict)
    distance: float | None = None
    log: str = ""
    fault: str = ""
    ending: str = ""
    version: str = ""


@dataclass(frozen=True)
class NodePlacement:
    """Where a session's nodes really are. nodes: provider -> operators with their number, None
    where this ONNX Runtime does not tell (before 1.24)."""

    active: tuple[str, ...]
    nodes: Mapping[str, Mapping[str, int]] | None = None
    fault: str = ""

    def count(self, provider: str) -> int | None:
        """How many nodes a provider took."""
        return None if self.nodes is None else sum(self.nodes.get(provider, {}).values())
