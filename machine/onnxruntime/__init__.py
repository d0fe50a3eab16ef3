"""ONNX Runtime sessions: where each runs, and why there."""
