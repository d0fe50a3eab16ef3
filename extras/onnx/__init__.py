"""Voices as ONNX graphs: exported with torch, and run without it.

`import onnx` means the package `onnx`, also in this folder.
"""

VOICES = "extras.onnx.voices"
