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
WISHES = ("auto", *PROVIDERS)
# The library of each in a build's wheel, under its Linux name; DirectML has no separate library.
LIBRARIES: Mapping[str, str] = {
    CUDA: "libonnxruntime_providers_cuda.so",
    ROCM[0]: "libonnxruntime_providers_migraphx.so",
    ROCM[1]: "libonnxruntime_providers_rocm.so",
    OPENVINO: "libonnxruntime_providers_openvino.so",
}
# The package to install for each.
BUILDS: Mapping[str, str] = {
    "cuda": "onnxruntime-gpu",
    "rocm": "onnxruntime-migraphx",
    "directml": "onnxruntime-directml",
    "openvino": "onnxruntime-openvino",
    "cpu": "onnxruntime",
}
CALLED: Mapping[str, str] = {
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
        kind: One of WISHES.
        index: The GPU's number, from 0.
        part: OpenVINO's device, as in "openvino:GPU".
    """

    kind: str
    index: int = 0
    part: str = "CPU"

    @property
    def provider(self) -> str:
        """ONNX Runtime's name of the requested provider, or "auto"."""
        return self.kind if self.kind == "auto" else PROVIDERS[self.kind][0]

    @property
    def device(self) -> str:
        """The device if the request is met: "cuda:0", "cpu"."""
        if self.kind in ("cuda", "rocm", "directml"):
            return f"{self.kind}:{self.index}"
        return self.part.lower() if self.kind == "openvino" else "cpu"

    def options(self) -> dict[str, str]:
        """The provider's options. The default cudnn_conv_algo_search would try every algorithm for
        each length of input, and speech has many lengths."""
        if self.kind == "cuda":
            return {"device_id": str(self.index), "cudnn_conv_algo_search": "HEURISTIC"}
        if self.kind == "openvino":
            return {"device_type": self.part}
        return {"device_id": str(self.index)} if self.kind in ("rocm", "directml") else {}


def wish_of(text: str) -> ProviderRequest:
    """Parses "cuda", "cuda:1", "openvino:GPU", "auto", …. Raises SotaqueError."""
    kind, _, rest = text.strip().partition(":")
    kind = kind.lower()
    if kind == "openvino":
        return ProviderRequest(kind, part=rest.upper() or "CPU")
    if kind in WISHES and (not rest or (rest.isdigit() and kind not in ("auto", "cpu"))):
        return ProviderRequest(kind, int(rest or 0))
    raise SotaqueError(
        f"{text!r} is not a provider of ONNX Runtime. Allowed: {', '.join(WISHES)}; cuda:1 for a "
        "second GPU; openvino:GPU for a device of OpenVINO."
    )
