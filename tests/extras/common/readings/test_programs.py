"""Programs and child processes that are queried: they hang, fail or do not exist. The children
are real."""

import array
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from extras.common.readings import libraries_child, programs
from extras.common.readings.programs import distance
from machine import process
from machine.storage.facts import Facts
from tests.extras.common.readings.places import program, write

REAL_TORCH_BUILD = programs.torch_build
REAL_REFUSED = programs.refused_settings
SMI = (
    "0, NVIDIA GeForce RTX 3090, 7, 410, 24576, 560.35.03, Default, 8.6, GPU-5ac1\n"
    "1, NVIDIA A100 MIG 1g.5gb, [N/A], [N/A], [N/A], 560.35.03, [Not Supported], 8.0"
)


def test_a_program_that_cannot_judge_its_settings_is_told(tmp_path):
    preflights = {"a run": (sys.executable, "-c", "raise SystemExit('no disk')")}
    with pytest.raises(programs.LookFailed, match="the settings of a run: no disk"):
        REAL_REFUSED(preflights, {"PATH": os.defpath}, tmp_path / ".env")


def test_nvidia_smi_that_answers(tmp_path):
    path = program(tmp_path, "nvidia-smi", f"cat <<'END'\n{SMI}\nEND")
    found = programs.managed_gpus({"nvidia-smi": str(path)}, True)
    whole, part = found.gpus
    assert (whole.capability, whole.used_bytes, whole.busy_percent) == ((8, 6), 410 << 20, 7.0)
    assert (part.used_bytes, part.busy_percent, part.capability) == (None, None, (8, 0))
    assert found.fault == "" and whole.driver_version == "560.35.03"
    assert (whole.uuid, part.uuid) == ("GPU-5ac1", "")


def test_an_old_nvidia_smi_is_asked_again_without_the_new_word(tmp_path):
    path = program(
        tmp_path,
        "nvidia-smi",
        'case "$1" in *compute_cap*) echo \'Field "compute_cap" is not a valid field\'; exit 2;; '
        'esac; echo "0, Tesla K80, 3, 10, 11441, 470.82.01, Default"',
    )
    (gpu,) = programs.managed_gpus({"nvidia-smi": str(path)}, True).gpus
    assert (gpu.name, gpu.capability) == ("Tesla K80", None)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18", "mismatch"),
        ("echo nothing of use", "nothing of use"),
        ("kill -SEGV $$", "Segmentation"),
        ("exit 0", "lists no GPU"),
        ("", "cannot be started"),  # not a program
    ],
)
def test_nvidia_smi_that_fails_tells_why(tmp_path, script, words):
    path = program(tmp_path, "nvidia-smi", script)
    if not script:
        path.write_text("text")
    found = programs.managed_gpus({"nvidia-smi": str(path)}, True)
    assert found.gpus == () and words in found.fault


LOADERS = "libcuda.so.1: cannot open shared object file"


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (process.ProcessResult(0, "/usr/lib/libcuda.so.1\n", "", 0.1), "/usr/lib/libcuda.so.1"),
        (process.ProcessResult(1, "", f"Traceback:\nOSError: {LOADERS}\n", 0.1), ""),
    ],
)
def test_without_libcuda_the_loader_says_why(monkeypatch, answer, found):
    monkeypatch.setattr(programs, "run_with_timeout", lambda *_: answer)
    assert programs.libcuda() == (found, "" if found else LOADERS)


def test_the_kernels_log_is_read_where_it_may_be(tmp_path):
    line = "[1.0] NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus."
    refused = program(tmp_path, "dmesg", "echo 'Operation not permitted' >&2; exit 1")
    journal = program(tmp_path, "journalctl", f"echo 'other'; echo '{line}'")
    asked = {"dmesg": str(refused), "journalctl": str(journal)}
    assert programs.kernel_log(asked) == (line,)
    assert programs.kernel_log({"dmesg": str(refused)}) == ()


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
        with pytest.raises(programs.LookFailed, match=words):
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
    found = programs.onnx_runtime()
    assert (found.packages, found.cuda) == ({"onnxruntime-gpu": "1.31.1"}, "13.0")
    assert found.provider_fault == "libcublasLt.so.13: cannot open"
    assert str(asked[0][-1]).endswith("libonnxruntime_providers_cuda.so")
    (site / "onnxruntime/capi/libonnxruntime_providers_cuda.so").unlink()
    assert programs.onnx_runtime().cuda == ""  # a CPU build lacks this file
    (site / "onnxruntime/capi/build_and_package_info.py").write_text("cuda_version = (")
    assert programs.onnx_runtime().cuda == ""


def test_the_loaders_sentence_is_the_reason(tmp_path):
    library = an_onnx_runtime(tmp_path) / "onnxruntime/capi/libonnxruntime_providers_cuda.so"
    assert "libonnxruntime_providers_cuda.so" in libraries_child.fault_of(str(library))
    assert libraries_child.fault_of("libc.so.6") == ""


def test_two_waveforms_are_compared_without_torch(tmp_path):
    def waveform(name: str, *values: float) -> Path:
        path = tmp_path / name
        path.write_bytes(array.array("f", values).tobytes())
        return path

    recorded = waveform("one", 3.0, 4.0)
    assert distance(recorded, recorded) == 0.0
    assert distance(waveform("other", 3.0, 3.0), recorded) == pytest.approx(0.2)
    assert distance(waveform("short", 3.0), recorded) is None
    assert distance(tmp_path / "missing", recorded) is None


def test_libraries_are_read_from_a_memory_map():
    maps = (
        "7f00-7f01 r-xp 00000000 fe:00 12  /a b/nvidia/cu13/lib/libcufft.so.12\n"
        "7f01-7f02 r--p 00001000 fe:00 12  /a b/nvidia/cu13/lib/libcufft.so.12\n"
        "7f02-7f03 r-xp 00000000 fe:00 13  /usr/local/cuda/lib64/libcufft.so.12\n"
        "7f03-7f04 r-xp 00000000 fe:00 14  /usr/lib/libcuda.so.1\n"
        "7f04-7f05 rw-p 00000000 00:00 0\n"
    )
    assert libraries_child.mapped_libraries(maps, libraries_child.OURS_TO_JUDGE) == {
        "libcufft.so.12": ["/a b/nvidia/cu13/lib/libcufft.so.12", "/usr/local/cuda/lib64/libcufft.so.12"]
    }
