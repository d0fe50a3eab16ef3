"""A session on a GPU, as reported for Piper: nodes, log and run."""

from collections import Counter
from pathlib import Path

from extras.common.onnxruntime.placement import session_status
from extras.common.onnxruntime.providers import CPU, CUDA, ProviderRequest
from extras.doctor.explain.graph import ModelGraph
from extras.doctor.explain.model_report import facts

# Piper on CUDA: the number of copies and the log lines come from document 000.
LOG = """2026-11-21 [W:onnxruntime:, transformer_memcpy.cc:111 ApplyImpl] 28 Memcpy nodes are \
added to the graph main_graph for CUDAExecutionProvider. It might have negative impact on \
performance
2026-11-21 [I:onnxruntime:, fallback_cpu_capability.cc:166 GetCpuPreferredNodes] ORT optimization- \
Force fallback to CPU execution for node: /dp/Slice_3 because the CPU execution path is deemed \
faster than overhead involved with execution on other EPs capable of executing this node
2026-11-21 [I:onnxruntime:, fallback_cpu_capability.cc:166 GetCpuPreferredNodes] ORT optimization- \
Force fallback to CPU execution for node: /dp/Gather because the CPU execution path is deemed \
faster than overhead involved with execution on other EPs capable of executing this node"""


def on_cuda(on_cpu: dict[str, int], rows: list[dict] | None = None) -> dict:
    nodes = {CUDA: {"Conv": 140, "ConvTranspose": 4, "Add": 300}, CPU: on_cpu}
    operators = Counter({("", name): number for node in nodes.values() for name, number in node.items()})
    graph = ModelGraph(Path("piper.onnx"), (), (), operators, {"ai.onnx": 15}, "pytorch", 63_000_000)
    run = rows and {
        "plan": [],
        "cold_seconds": 3.9,
        "warm_seconds": 0.05,
        "runs": 30,
        "executed": rows,
        "activity": {
            "cpu_percent": 96.0,
            "fault": "",
            "gpus": {"0: NVIDIA GeForce MX230": {"busy_percent": 71.0, "used_bytes": 512_000_000}},
        },
    }
    told = {
        "version": "1.31.1",
        "nodes": nodes,
        "load_seconds": 1.2,
        "import_bytes": 60_000_000,
        "loaded_bytes": 400_000_000,
        "peak_bytes": 700_000_000,
        "run": run,
    }
    wish = ProviderRequest("cuda")
    return facts(graph, session_status(wish, wish, CUDA, nodes, None), told, LOG)
