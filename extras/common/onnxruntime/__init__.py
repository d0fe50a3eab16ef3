"""ONNX Runtime sessions: on which device each runs, and why."""
