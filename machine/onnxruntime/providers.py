"""Execution providers: the names users type, and ONNX Runtime's own.

AMD's are two: `ROCMExecutionProvider` left ONNX Runtime with 1.23, and the builds for AMD since
then bring `MIGraphXExecutionProvider`.
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
# What a build's wheel brings for each; on Windows they end otherwise, and DirectML is inside.
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
    """Where to compute: kind is one of WISHES; index: the second GPU is 1; part: which of
    OpenVINO's devices, "CPU" unless it is said ("openvino:GPU")."""

    kind: str
    index: int = 0
    part: str = "CPU"

    @property
    def provider(self) -> str:
        """What status tells as asked for: ONNX Runtime's name, or "auto"."""
        return self.kind if self.kind == "auto" else PROVIDERS[self.kind][0]

    @property
    def device(self) -> str:
        """Where it computes when it gets what it asks for: "cuda:0", "cpu"."""
        if self.kind in ("cuda", "rocm", "directml"):
            return f"{self.kind}:{self.index}"
        return self.part.lower() if self.kind == "openvino" else "cpu"

    def options(self) -> dict[str, str]:
        """What the provider is told. cudnn_conv_algo_search: the default tries every algorithm
        again for each length of input; speech has many lengths."""
        if self.kind == "cuda":
            return {"device_id": str(self.index), "cudnn_conv_algo_search": "HEURISTIC"}
        if self.kind == "openvino":
            return {"device_type": self.part}
        return {"device_id": str(self.index)} if self.kind in ("rocm", "directml") else {}


def wish_of(text: str) -> ProviderRequest:
    """ "cuda", "cuda:1", "openvino:GPU", "auto", …. Raises SotaqueError."""
    kind, _, rest = text.strip().partition(":")
    kind = kind.lower()
    if kind == "openvino":
        return ProviderRequest(kind, part=rest.upper() or "CPU")
    if kind in WISHES and (not rest or (rest.isdigit() and kind not in ("auto", "cpu"))):
        return ProviderRequest(kind, int(rest or 0))
    raise SotaqueError(
        f"{text!r} is no place where ONNX Runtime computes; allowed are {', '.join(WISHES)}, a "
        "second GPU as cuda:1, and OpenVINO's devices as openvino:GPU."
    )
