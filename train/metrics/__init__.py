"""Logs, metrics.jsonl, TensorBoard, and how busy the machine is."""
