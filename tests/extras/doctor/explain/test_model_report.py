"""Explanations as text and JSON, and refusals."""

from extras.common.onnxruntime.providers import CPU, CUDA
from extras.doctor.explain.model_report import as_text, count_copies, refusal_message
from tests.extras.doctor.explain.on_cuda import LOG, on_cuda


def test_document_000s_question_is_answered_yes():
    text = as_text(on_cuda({"Shape": 80, "Gather": 120, "Slice": 60, "Concat": 70}))
    assert "Runs on cuda:0 (CUDAExecutionProvider)." in text
    assert "Is that normal?\n  Yes: the compute-heavy nodes are on the accelerator." in text
    assert "444 on CUDAExecutionProvider, 330 on CPUExecutionProvider" in text
    assert "28 copies" in text and "moved 2 of them to the CPU" in text


def test_a_convolution_on_the_cpu_is_answered_no_and_stands_first():
    rows = [
        {"provider": CPU, "operator": "Slice", "times": 60, "seconds": 0.001, "largest": 4},
        {"provider": CPU, "operator": "ConvTranspose", "times": 2, "seconds": 0.02, "largest": 2_000_000},
        {"provider": CUDA, "operator": "Conv", "times": 140, "seconds": 0.021, "largest": 2_000_000},
    ]
    found = on_cuda({"Slice": 60, "ConvTranspose": 2}, rows)
    text = as_text(found)
    assert "No: ConvTranspose (2) should not be on the CPU." in text
    assert text.index("NO  ConvTranspose (2)") < text.index("ok  Slice (60)")
    assert "First run 3.90 s, then 50 ms (median of 30)." in text
    assert "CPUExecutionProvider 50 %, CUDAExecutionProvider 50 %" in text
    assert "NVIDIA GeForce MX230 at most 71 % busy, 512 MB in use" in " ".join(text.split())
    assert found["copies"] == 28 and len(found["forced_to_cpu"]) == 2
    assert [row["normal"] for row in found["on_cpu"]] == ["no", "yes"]
    assert found["status"]["reason_code"] == "heavy_on_cpu"


def test_copies_are_as_warned_of_else_as_run():
    rows = [
        {"operator": "MemcpyToHost", "times": 3},
        {"operator": "MemcpyFromHost", "times": 2},
        {"operator": "Conv", "times": 9},
    ]
    assert (count_copies(LOG, rows), count_copies("", rows), count_copies("", [])) == (28, 5, 0)


def test_an_old_opset_is_not_mended_by_another_type_or_version():
    fault = "NotImplemented: Could not find an implementation for Add(6) node with name ''"
    told = refusal_message("m.onnx", fault, opset=6)
    assert "Export it again with opset 13 or later" in told and "pip install" not in told
    assert "fp32, or:" in refusal_message("m.onnx", fault, opset=7)  # here the type is at fault


def test_words_that_are_not_known_are_handed_on():
    told = refusal_message("m.onnx", "Fail: [ONNXRuntimeError] : 1 : FAIL : Load model failed:Something.")
    assert told == "ONNX Runtime refuses m.onnx: Something."
