"""Execution providers: the names that users type, and ONNX Runtime's own.

AMD has two: ONNX Runtime 1.23 removed `ROCMExecutionProvider`, and later builds for AMD have
`MIGraphXExecutionProvider`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from machine.errors import SotaqueError

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
ROCM = ("MIGraphXExecutionProvider", "ROCMExecutionProvider")
DIRECTML = "DmlExecutionProvider"
OPENVINO = "OpenVINOExecutionProvider"
# In the order in which `auto` tries them.
PROVIDERS: Mapping[str, tuple[str, ...]] = {
    "cuda": (CUDA,),
    "rocm": ROCM,
    "directml": (DIRECTML,),
    "openvino": (OPENVINO,),
    "cpu": (CPU,),
}
PROVIDER_KINDS = ("auto", *PROVIDERS)
# The library of each in a build's wheel, under its Linux name; DirectML has no separate library.
PROVIDER_LIBRARIES: Mapping[str, str] = {
    CUDA: "libonnxruntime_providers_cuda.so",
    ROCM[0]: "libonnxruntime_providers_migraphx.so",
    ROCM[1]: "libonnxruntime_providers_rocm.so",
    OPENVINO: "libonnxruntime_providers_openvino.so",
}
# The package to install for each.
BUILD_PACKAGES: Mapping[str, str] = {
    "cuda": "onnxruntime-gpu",
    "rocm": "onnxruntime-migraphx",
    "directml": "onnxruntime-directml",
    "openvino": "onnxruntime-openvino",
    "cpu": "onnxruntime",
}
PROVIDER_LABELS: Mapping[str, str] = {
    "auto": "the best there is",
    "cuda": "CUDA",
    "rocm": "ROCm",
    "directml": "DirectML",
    "openvino": "OpenVINO",
    "cpu": "the CPU",
}


@dataclass(frozen=True)
class ProviderRequest:
    """Where to compute.

    Attributes:
        kind: One of PROVIDER_KINDS.
        index: The GPU's number, from 0.
        openvino_device: OpenVINO's device, as in "openvino:GPU".
    """

    kind: str
    index: int = 0
    openvino_device: str = "CPU"

    @property
    def provider(self) -> str:
        """ONNX Runtime's name of the requested provider, or "auto"."""
        return self.kind if self.kind == "auto" else PROVIDERS[self.kind][0]

    @property
    def device(self) -> str:
        """The device if the request is met: "cuda:0", "cpu"."""
        if self.kind in ("cuda", "rocm", "directml"):
            return f"{self.kind}:{self.index}"
        return self.openvino_device.lower() if self.kind == "openvino" else "cpu"

    def options(self) -> dict[str, str]:
        """The provider's options. The default cudnn_conv_algo_search would try every algorithm for
        each length of input, and speech has many lengths."""
        if self.kind == "cuda":
            return {"device_id": str(self.index), "cudnn_conv_algo_search": "HEURISTIC"}
        if self.kind == "openvino":
            return {"device_type": self.openvino_device}
        return {"device_id": str(self.index)} if self.kind in ("rocm", "directml") else {}


def parse_provider(text: str) -> ProviderRequest:
    """Parses "cuda", "cuda:1", "openvino:GPU", "auto", …. Raises SotaqueError."""
    kind, _, suffix = text.strip().partition(":")
    kind = kind.lower()
    if kind == "openvino":
        return ProviderRequest(kind, openvino_device=suffix.upper() or "CPU")
    if kind in PROVIDER_KINDS and (not suffix or (suffix.isdigit() and kind not in ("auto", "cpu"))):
        return ProviderRequest(kind, int(suffix or 0))
    raise SotaqueError(
        f"{text!r} is not a provider of ONNX Runtime. Allowed: {', '.join(PROVIDER_KINDS)}; cuda:1 for a "
        "second GPU; openvino:GPU for a device of OpenVINO."
    )
