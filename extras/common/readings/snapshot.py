"""The raw readings of a machine as data, with which tests simulate machines."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from extras.common.readings.nvml import GpuState
from machine.devices.selection import Environment

NVIDIA, AMD, INTEL = "10de", "1002", "8086"


class ReadingFailed(Exception):
    """A reading failed; the text is the reason."""


@dataclass(frozen=True)
class MachineSettings:
    """The settings that concern the machine.

    Attributes:
        model_bytes: Size of the base model's weights; 0 if they are not downloaded yet.
        fault: Why the settings are invalid; the other values are then the defaults.
    """

    output_dir: Path = Path("train/output")
    device: str = "auto"
    base_model: str = "demo"
    model_bytes: int = 0
    fault: str = ""


@dataclass(frozen=True)
class Driver:
    """NVIDIA's driver.

    Attributes:
        version: The version of the loaded kernel module; "" without one.
        nouveau: Whether the module nouveau is loaded.
        libcuda: Path of libcuda.so.1; "" if the loader cannot load it.
        libcuda_fault: The loader's error.
        system: ID and ID_LIKE of os-release.
    """

    version: str = ""
    nouveau: bool = False
    libcuda: str = ""
    libcuda_fault: str = ""
    system: tuple[str, ...] = ()


@dataclass(frozen=True)
class Nodes:
    """Device nodes under /dev: nvidia0, nvidiactl, nvidia-uvm, dxg.

    Attributes:
        closed: Those that this user cannot open.
    """

    names: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()

    @property
    def gpus(self) -> tuple[str, ...]:
        """nvidia0, nvidia1, …"""
        return tuple(name for name in self.names if name.removeprefix("nvidia").isdigit())


@dataclass(frozen=True)
class GraphicsCard:
    """A display controller on the PCI bus.

    Attributes:
        vendor, device: Hexadecimal IDs.
        screen: Whether it is the boot display.
        power: Its runtime_status.
    """

    address: str
    vendor: str
    device: str = ""
    screen: bool = False
    power: str = ""


@dataclass(frozen=True)
class Graphics:
    """Every display controller.

    Attributes:
        laptop: Whether it is a laptop, by its battery or chassis.
        off: The tool and file that switch the NVIDIA card off; "" for none.
    """

    cards: tuple[GraphicsCard, ...] = ()
    laptop: bool = False
    off: str = ""

    @property
    def nvidia(self) -> tuple[GraphicsCard, ...]:
        """The cards that CUDA could use."""
        return tuple(card for card in self.cards if card.vendor == NVIDIA)


@dataclass(frozen=True)
class Managed:
    """What the driver's management interface reports.

    Attributes:
        source: "nvidia-smi" or "NVML".
        fault: Why it reported nothing, in its own words.
    """

    gpus: tuple[GpuState, ...] = ()
    source: str = ""
    fault: str = ""


@dataclass(frozen=True)
class Container:
    """Container facts.

    Attributes:
        inside: Whether this process runs in a container.
        toolkit: Path of NVIDIA's container toolkit; "" for none.
        docker: Path of docker; "" for none.
    """

    inside: bool = False
    toolkit: str = ""
    docker: str = ""


@dataclass(frozen=True)
class TorchBuild:
    """torch's build, read in a child that imports it.

    Attributes:
        cuda: "13.0"; "" for a build without CUDA.
        architectures: ("sm_75", …, "compute_120").
        libraries: CUDA library -> every path from which it is loaded.
        folders: The folders of the build's own libraries.
        fault: Why torch could not be imported.
    """

    version: str = ""
    cuda: str = ""
    cudnn: int = 0
    architectures: tuple[str, ...] = ()
    libraries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    fault: str = ""


@dataclass(frozen=True)
class OnnxRuntime:
    """ONNX Runtime's installation.

    Attributes:
        packages: Distribution -> version.
        cuda: The CUDA version it is built for; "" for a CPU build.
        provider_fault: The loader's error for its CUDA library.
        provider_fault_with_torch: The same after torch was imported.
    """

    packages: Mapping[str, str] = field(default_factory=dict)
    cuda: str = ""
    provider_fault: str = ""
    provider_fault_with_torch: str = ""


@dataclass(frozen=True)
class Storage:
    """The disk of OUTPUT_DIR.

    Attributes:
        place: The nearest folder that exists.
        write_fault: Why no file can be created there; "" if one can.
    """

    place: Path
    free_bytes: int
    total_bytes: int
    write_fault: str = ""


@dataclass(frozen=True)
class TrialSpeech:
    """One sentence spoken on a device (`--deep`).

    Attributes:
        loudness: Root mean square of the waveform.
        distance: Relative L2 distance to the CPU's waveform; None if the lengths differ, and on the
            CPU itself.
        fault: Why nothing was spoken.
    """

    device: str
    seconds: float = 0.0
    audio_seconds: float = 0.0
    loudness: float = 0.0
    distance: float | None = None
    fault: str = ""


@dataclass(frozen=True)
class Machine:
    """Every reading; one that failed is None, and `troubles` says why under its name.

    Attributes:
        refused: (program, sentence) for each setting that a program refuses.
        variables: Only the environment variables that concern GPUs, libraries and graphics.
        programs: Name -> path of the programs on PATH.
        shared_memory: Bytes of /dev/shm; 0 if there is none.
        seconds: How long each reading took.
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
