"""ONNX Runtime's load errors as one sentence for a person."""

import re

_NEWER = ".venv/bin/uv pip install --upgrade onnxruntime"
_MOST_CHARACTERS = 300
# ONNX Runtime's CPU kernels of Add, Mul, Gemm, Dropout and BatchNormalization begin here.
_OLDEST_OPSET = 7


def refusal(name: str, fault: str, opset: int | None = None) -> str:
    """What is wrong with the model `name`, and what to do. opset: of the standard operators."""
    text = " ".join(fault.split())
    missing = re.search(r"Could not find an implementation for (\w+)\((\d+)\)", text)
    if missing and opset is not None and opset < _OLDEST_OPSET:
        return (
            f"{name} is of opset {opset}, and has the operator {missing[1]} in a form for which "
            f"ONNX Runtime has no kernel: most of its kernels begin with opset {_OLDEST_OPSET}, so "
            "neither fp32 nor a newer ONNX Runtime helps. Export it again with opset 13 or later."
        )
    for pattern, sentence in _KNOWN:
        if found := re.search(pattern, text):
            return f"{name} " + sentence.format(*found.groups(), newer=_NEWER)
    told = re.sub(r"^.*?failed: ?", "", text)
    told = re.sub(r"/\S+\.(cc|h):\d+ .*?\) ", "", told)
    return f"{name} is refused by ONNX Runtime: {told[:_MOST_CHARACTERS]}"


_KNOWN = (
    (r"Fatal error: ([\w.]+):(\w+)\(-?\d+\) is not a registered",
     "has the operator {1} of {0}, which this ONNX Runtime does not know. It comes with a library "
     "of its own, or with another build."),
    (r"No Op registered for (\w+) with domain_version of (\d+)",
     "has the operator {0}, which opset {1} of ONNX does not have. Export it again, or: {newer}"),
    (r"Could not find an implementation for (\w+)\((\d+)\)",
     "has the operator {0} (opset {1}) with types for which this ONNX Runtime has no kernel. "
     "Export it in fp32, or: {newer}"),
    (r"Opset (\d+) is under development.*?till opset (\d+)",
     "is of opset {0}, and this ONNX Runtime reads up to {1}. Export it with an older opset, or: "
     "{newer}"),
    (r"Unsupported model IR version: (\d+), max supported IR version: (\d+)",
     "is of ONNX format {0}, and this ONNX Runtime reads up to {1}. Export it again, or: {newer}"),
    (r"External data path escapes.*?\"([^\"]+)\"",
     "keeps its weights in {0}, which is a link out of its folder; ONNX Runtime reads weights only "
     "from there. Copy the file itself beside the model."),
    (r"External data path.*?\"([^\"]+)\"",
     "keeps its weights in {0}, which cannot be used. Put both files into one folder."),
    (r"(?:No graph was found|Protobuf parsing failed)",
     "is no ONNX model, or cut short. Get it again."),
)  # fmt: skip
