"""The machine as data: raw readings; tests simulate machines with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from machine.devices.nvml import GpuState
from machine.devices.selection import Environment

NVIDIA, AMD, INTEL = "10de", "1002", "8086"


@dataclass(frozen=True)
class MachineSettings:
    """The settings that concern the machine. fault: why they could not be read; these are the
    defaults then. model_bytes: of the base model's weights, 0 where they are not there yet."""

    output_dir: Path = Path("train/output")
    device: str = "auto"
    base_model: str = "demo"
    model_bytes: int = 0
    fault: str = ""


@dataclass(frozen=True)
class Driver:
    """The kernel's side. version: of the loaded module, "" without one; system: os-release's ID and
    ID_LIKE; libcuda: path of libcuda.so.1, "" where the loader finds none, and `libcuda_fault` is
    its own sentence."""

    version: str = ""
    nouveau: bool = False
    libcuda: str = ""
    libcuda_fault: str = ""
    system: tuple[str, ...] = ()


@dataclass(frozen=True)
class Nodes:
    """Names under /dev: nvidia0, nvidiactl, nvidia-uvm, dxg; closed: those not ours to open."""

    names: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()

    @property
    def gpus(self) -> tuple[str, ...]:
        """nvidia0, nvidia1, …"""
        return tuple(name for name in self.names if name.removeprefix("nvidia").isdigit())


@dataclass(frozen=True)
class GraphicsCard:
    """A display controller on the PCI bus. vendor, device: hexadecimal; power: runtime_status."""

    address: str
    vendor: str
    device: str = ""
    screen: bool = False
    power: str = ""


@dataclass(frozen=True)
class Graphics:
    """Every display controller; laptop: by its battery or chassis; off: which tool's file says that
    the NVIDIA card is to be switched off ("/etc/prime-discrete: off")."""

    cards: tuple[GraphicsCard, ...] = ()
    laptop: bool = False
    off: str = ""

    @property
    def nvidia(self) -> tuple[GraphicsCard, ...]:
        """The cards that CUDA could use."""
        return tuple(card for card in self.cards if card.vendor == NVIDIA)


@dataclass(frozen=True)
class Managed:
    """What the driver's own management interface reports. source: nvidia-smi or NVML; fault: why it
    reported nothing, in its words."""

    gpus: tuple[GpuState, ...] = ()
    source: str = ""
    fault: str = ""


@dataclass(frozen=True)
class Container:
    """inside: whether we are in one; toolkit: path of NVIDIA's container tool on this machine;
    docker: path of docker."""

    inside: bool = False
    toolkit: str = ""
    docker: str = ""


@dataclass(frozen=True)
class TorchBuild:
    """Read in a child that imports torch. cuda: "13.0", "" for a build without; architectures:
    ("sm_75", …, "compute_120"); libraries: name -> every path it is loaded from; folders: where the
    build's own libraries stand; fault: why it could not be imported."""

    version: str = ""
    cuda: str = ""
    cudnn: int = 0
    architectures: tuple[str, ...] = ()
    libraries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    fault: str = ""


@dataclass(frozen=True)
class OnnxRuntime:
    """packages: distribution -> version; cuda: the major it is built for, "" for a CPU build;
    provider_fault: what the loader says to its CUDA library, and once more with torch's loaded."""

    packages: Mapping[str, str] = field(default_factory=dict)
    cuda: str = ""
    provider_fault: str = ""
    provider_fault_with_torch: str = ""


@dataclass(frozen=True)
class Storage:
    """Where OUTPUT_DIR is, or will be. place: the nearest folder that exists; write_fault: why no
    file could be made there, "" where one could."""

    place: Path
    free_bytes: int
    total_bytes: int
    write_fault: str = ""


@dataclass(frozen=True)
class TrialSpeech:
    """`--deep`: one sentence on a device. distance: relative L2 to the CPU's waveform, None where
    the two are of different length, or on the CPU itself; fault: why nothing was spoken."""

    device: str
    seconds: float = 0.0
    audio_seconds: float = 0.0
    loudness: float = 0.0
    distance: float | None = None
    fault: str = ""


@dataclass(frozen=True)
class Machine:
    """Every reading; one that could not be taken is None, and `troubles` says why under its name.

    seconds: how long each took. variables: those of the environment that concern GPUs, libraries
    and graphics, and nothing else of it. programs: name -> path of those on PATH. refused: what a
    person calls a program, and its own sentence for what it would refuse to start with.
    shared_memory: bytes of /dev/shm, 0 where there is none.
    """

    settings: MachineSettings | None = None
    refused: tuple[tuple[str, str], ...] | None = None
    driver: Driver | None = None
    nodes: Nodes | None = None
    graphics: Graphics | None = None
    managed: Managed | None = None
    container: Container | None = None
    variables: Mapping[str, str] | None = None
    programs: Mapping[str, str] | None = None
    torch: TorchBuild | None = None
    onnx: OnnxRuntime | None = None
    storage: Storage | None = None
    shared_memory: int | None = None
    kernel_log: tuple[str, ...] | None = None
    environment: Environment | None = None
    spoken: tuple[TrialSpeech, ...] = ()
    troubles: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
