"""The real builds of ONNX Runtime."""

from tests.extras.common.onnxruntime.test_onnx_wheels import gpu, model, openvino, silero

__all__ = ["gpu", "model", "openvino", "silero"]
