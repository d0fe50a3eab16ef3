"""`python -m xtts explain` with the real builds of ONNX Runtime, on a machine without a GPU."""

import json
import re

from extras.common.onnxruntime.providers import CPU, OPENVINO
from tests.extras.common.onnxruntime import test_onnx_wheels

pytestmark = test_onnx_wheels.pytestmark


def test_explain_says_what_is_missing_and_runs_it_on_the_cpu(gpu, silero):
    done = gpu.run("-m", "xtts", "explain", str(silero), "--run", "--provider", "cuda")
    assert done.returncode == 0, done.stderr
    assert re.search(r"libcu\w+\.so\.\d+ is missing", " ".join(done.stdout.split()))
    assert "No: an accelerator was requested" in done.stdout
    assert "run with [1, 512]" in done.stdout and "run with [2, 1, 128]" in done.stdout
    assert "LSTM (4)" in done.stdout and done.stderr == ""


def test_a_product_on_the_cpu_beside_an_accelerator_is_not_normal(openvino, model):
    done = openvino.run("-m", "xtts", "explain", str(model), "--run", "--json")
    told = json.loads(done.stdout)
    assert told["status"]["accelerator_nodes"] == 2 == told["status"]["cpu_nodes"]
    assert {row["operator"]: row["normal"] for row in told["on_cpu"]} == {"MatMul": "no", "Inverse": "yes"}
    assert told["normal"].startswith("No: MatMul (1)")
    assert {row["provider"] for row in told["run"]["executed"]} == {OPENVINO, CPU}
