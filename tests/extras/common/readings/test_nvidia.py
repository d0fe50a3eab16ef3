"""nvidia-smi and libcuda: they answer, hang, fail or do not exist. The children are real."""

import pytest

from extras.common.readings import nvidia
from machine import process
from tests.extras.common.readings.places import program

SMI = (
    "0, NVIDIA GeForce RTX 3090, 7, 410, 24576, 560.35.03, Default, 8.6, GPU-5ac1\n"
    "1, NVIDIA A100 MIG 1g.5gb, [N/A], [N/A], [N/A], 560.35.03, [Not Supported], 8.0"
)


def test_nvidia_smi_that_answers(tmp_path):
    path = program(tmp_path, "nvidia-smi", f"cat <<'END'\n{SMI}\nEND")
    found = nvidia.managed_gpus({"nvidia-smi": str(path)}, True)
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
    (gpu,) = nvidia.managed_gpus({"nvidia-smi": str(path)}, True).gpus
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
    found = nvidia.managed_gpus({"nvidia-smi": str(path)}, True)
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
    monkeypatch.setattr(nvidia, "run_with_timeout", lambda *_: answer)
    assert nvidia.libcuda() == (found, "" if found else LOADERS)
