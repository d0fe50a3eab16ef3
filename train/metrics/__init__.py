"""Logging: console, metrics.jsonl, TensorBoard, system usage."""
