"""The builds of torch and ONNX Runtime are read in children, which fail or hang."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from extras.common.readings import libraries, libraries_child
from extras.common.readings.snapshot import ReadingFailed
from machine import process
from machine.storage.facts import Facts
from tests.extras.common.readings.places import write

REAL_TORCH_BUILD = libraries.torch_build


ANSWER = {
    "version": "2.11.0",
    "cuda": "13.0",
    "cudnn": 91900,
    "architectures": ["sm_86"],
    "libraries": {"libcufft.so.12": ["/own/libcufft.so.12"]},
    "folders": ["/own"],
}


def answering(monkeypatch: pytest.MonkeyPatch, answer: process.ProcessResult) -> list[Any]:
    """Makes every child answer `answer`; returns the commands that were run."""
    calls: list[Any] = []

    def ask(command: Any, *_: Any, **__: Any) -> process.ProcessResult:
        calls.append(command)
        return answer

    monkeypatch.setattr(process, "run_with_timeout", ask)
    return calls


def test_torch_is_asked_once_until_a_file_changes(monkeypatch, tmp_path, caplog):
    greeting = "a library's greeting\n"
    asked = answering(monkeypatch, process.ProcessResult(0, greeting + json.dumps(ANSWER), "", 0.1))
    remembered = Facts(tmp_path, "doctor")
    first = REAL_TORCH_BUILD({}, remembered)
    assert REAL_TORCH_BUILD({}, remembered) == first and len(asked) == 1
    assert REAL_TORCH_BUILD({}, Facts(tmp_path, "doctor")) == first and len(asked) == 1
    assert caplog.text == ""
    assert first.libraries == {"libcufft.so.12": ("/own/libcufft.so.12",)}
    REAL_TORCH_BUILD({"LD_LIBRARY_PATH": str(tmp_path)}, remembered)
    REAL_TORCH_BUILD({}, None)
    assert len(asked) == 3
    (tmp_path / "libother.so").write_text("a new library in the folder that is searched")
    REAL_TORCH_BUILD({"LD_LIBRARY_PATH": str(tmp_path)}, Facts(tmp_path, "doctor"))
    assert len(asked) == 4


def test_torch_that_cannot_be_imported_says_why_and_one_that_says_nothing_is_no_answer(monkeypatch):
    fault = "ImportError: libcudart.so.13: cannot open"
    answering(monkeypatch, process.ProcessResult(1, "", f"Traceback\n{fault}", 1.0))
    assert REAL_TORCH_BUILD({}, None).fault == fault
    hung = process.ProcessResult(None, "", "", 90.0, "no answer within 90 s")
    for answer, words in ((hung, "90 s"), (process.ProcessResult(0, "", "", 1.0), "no JSON")):
        answering(monkeypatch, answer)
        with pytest.raises(ReadingFailed, match=words):
            REAL_TORCH_BUILD({}, None)


def an_onnx_runtime(site: Path, name: str = "onnxruntime_gpu") -> Path:
    """A package as pip installs it, with a CUDA library that cannot be loaded."""
    return write(
        site,
        {
            f"{name}-1.31.1.dist-info/METADATA": f"Name: {name}\nVersion: 1.31.1\n",
            "onnxruntime/__init__.py": "raise SystemExit('it must not be imported')",
            "onnxruntime/capi/build_and_package_info.py": (
                "package_name = 'onnxruntime-gpu'\ncuda_version = '13.0'\n"
            ),
            "onnxruntime/capi/libonnxruntime_providers_cuda.so": "no library",
        },
    )


def test_onnx_runtime_is_read_and_not_imported(monkeypatch, tmp_path):
    site = an_onnx_runtime(tmp_path / "site")
    # Only this folder: the tests' environment has the real package.
    monkeypatch.setattr(sys, "path", [str(site)])
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    told = json.dumps({"alone": "libcublasLt.so.13: cannot open", "with_torch": ""})
    (asked,) = [answering(monkeypatch, process.ProcessResult(0, told, "", 0.1))]
    found = libraries.onnx_runtime()
    assert (found.packages, found.cuda) == ({"onnxruntime-gpu": "1.31.1"}, "13.0")
    assert found.provider_fault == "libcublasLt.so.13: cannot open"
    assert str(asked[0][-1]).endswith("libonnxruntime_providers_cuda.so")
    (site / "onnxruntime/capi/libonnxruntime_providers_cuda.so").unlink()
    assert libraries.onnx_runtime().cuda == ""  # a CPU build lacks this file
    (site / "onnxruntime/capi/build_and_package_info.py").write_text("cuda_version = (")
    assert libraries.onnx_runtime().cuda == ""


def test_the_loaders_sentence_is_the_reason(tmp_path):
    library = an_onnx_runtime(tmp_path) / "onnxruntime/capi/libonnxruntime_providers_cuda.so"
    assert "libonnxruntime_providers_cuda.so" in libraries_child.fault_of(str(library))
    assert libraries_child.fault_of("libc.so.6") == ""


def test_libraries_are_read_from_a_memory_map():
    maps = (
        "7f00-7f01 r-xp 00000000 fe:00 12  /a b/nvidia/cu13/lib/libcufft.so.12\n"
        "7f01-7f02 r--p 00001000 fe:00 12  /a b/nvidia/cu13/lib/libcufft.so.12\n"
        "7f02-7f03 r-xp 00000000 fe:00 13  /usr/local/cuda/lib64/libcufft.so.12\n"
        "7f03-7f04 r-xp 00000000 fe:00 14  /usr/lib/libcuda.so.1\n"
        "7f04-7f05 rw-p 00000000 00:00 0\n"
    )
    assert libraries_child.mapped_libraries(maps, libraries_child.CUDA_LIBRARIES) == {
        "libcufft.so.12": ["/a b/nvidia/cu13/lib/libcufft.so.12", "/usr/local/cuda/lib64/libcufft.so.12"]
    }
