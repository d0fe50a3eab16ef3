"""The looks themselves, on broken machines: garbage for files, programs that hang, no PATH.

A machine is a folder here; children are real.
"""

import array
import json
import os
import stat
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import api.__main__
import api.preflight
import train.__main__
import train.preflight
import xtts.__main__
from machine import process
from machine.doctor.checks import surroundings
from machine.doctor.diagnosis import exit_code, judge
from machine.doctor.finding import Severity
from machine.doctor.readings import collection, onnx_child, programs, system_files, torch_child
from machine.doctor.readings.answer_cache import DoctorCache, key_of
from machine.doctor.readings.collection import ReadingPlace, look
from machine.doctor.readings.programs import distance
from machine.doctor.readings.snapshot import (
    AMD,
    NVIDIA,
    Machine,
    MachineSettings,
    Refused,
    TorchBuild,
)
from tests.machine.doctor.simulated import computer

REAL_TORCH_BUILD = programs.torch_build
REAL_REFUSED = programs.refused
TORCH = TorchBuild("2.11.0+cu130", "13.0", 91900, ("sm_86",))
OPEN_DRIVER = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build\n"
    "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"
)
SMI = (
    "0, NVIDIA GeForce RTX 3090, 7, 410, 24576, 560.35.03, Default, 8.6, GPU-5ac1\n"
    "1, NVIDIA A100 MIG 1g.5gb, [N/A], [N/A], [N/A], 560.35.03, [Not Supported], 8.0"
)


def write(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def program(folder: Path, name: str, script: str) -> Path:
    path = write(folder, {name: f"#!/bin/sh\n{script}\n"}) / name
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture(autouse=True)
def _no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing it takes seconds; its own look is tested below."""
    monkeypatch.setattr(programs, "torch_build", lambda *_: TORCH)
    monkeypatch.setattr(programs, "refused", lambda *_: ())


def seen(root: Path, environ: Mapping[str, str] | None = None, **more: Any) -> Machine:
    known = {"HOME": str(root), "PATH": ""} | dict(environ or {})
    place = ReadingPlace(root, root / ".env", known, gpus=lambda **_: computer(), **more)
    return look(place)


def laptop(root: Path) -> Path:
    return write(root, {
        "proc/driver/nvidia/version": OPEN_DRIVER,
        "sys/bus/pci/devices/0000:01:00.0/class": "0x030200\n",
        "sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n",
        "sys/bus/pci/devices/0000:01:00.0/device": "0x1d11\n",
        "sys/bus/pci/devices/0000:01:00.0/power/runtime_status": "suspended\n",
        "sys/bus/pci/devices/0000:05:00.0/class": "0x030000\n",
        "sys/bus/pci/devices/0000:05:00.0/vendor": "0x1002\n",
        "sys/bus/pci/devices/0000:05:00.0/device": "0x15d8\n",
        "sys/bus/pci/devices/0000:05:00.0/boot_vga": "1\n",
        "sys/bus/pci/devices/0000:00:1f.0/class": "0x060100\n",
        "sys/class/power_supply/BAT0/present": "1\n",
        "etc/os-release": 'NAME="CachyOS"\nID=cachyos\nID_LIKE="arch"\n',
        "dev/nvidia0": "", "dev/nvidiactl": "", "dev/nvidia-uvm": "",
        "dev/nvidia-caps/nvidia-cap1": "",
    })  # fmt: skip


def test_a_laptop_with_two_cards_is_read(tmp_path: Path) -> None:
    found = seen(laptop(tmp_path), {"DRI_PRIME": "1", "SECRET": "x"})
    assert found.troubles == {}
    assert found.driver and found.driver.version == "560.35.03"
    assert found.driver.system == ("cachyos", "arch")
    assert found.nodes and found.nodes.names == ("nvidia-uvm", "nvidia0", "nvidiactl")
    assert found.graphics and found.graphics.laptop
    nvidia, amd = found.graphics.cards
    assert (nvidia.vendor, nvidia.device, nvidia.power) == (NVIDIA, "1d11", "suspended")
    assert (amd.vendor, amd.screen) == (AMD, True)
    assert found.variables == {"DRI_PRIME": "1"}  # nothing that is nobody's business
    assert set(found.seconds) >= {"driver", "torch", "storage"}


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"etc/prime-discrete": "off\n"}, "prime-select"),
        ({"etc/udev/rules.d/50-remove-nvidia.rules": "x"}, "envycontrol"),
        ({"etc/supergfxd.conf": '{"mode": "Integrated"}'}, "supergfxctl"),
        ({"etc/supergfxd.conf": "[1]"}, ""),
        ({"proc/acpi/bbswitch": "0000:01:00.0 OFF\n"}, "bbswitch"),
        ({"etc/prime-discrete": "on-demand\n"}, ""),
    ],
)
def test_who_switched_the_card_off(tmp_path: Path, files: dict[str, str], words: str) -> None:
    off = system_files.graphics(write(tmp_path, files)).off
    assert off.startswith(words) and bool(off) == bool(words)


def test_garbage_for_every_file(tmp_path: Path) -> None:
    root = laptop(tmp_path)
    noise = bytes(range(256)) * 64
    for path in [*root.rglob("*")]:
        if path.is_file():
            path.write_bytes(noise)
    write(root, {"etc/supergfxd.conf": "{", "proc/1/cgroup": "\0", ".env": "nonsense"})
    found = seen(root)
    assert found.troubles == {}
    assert found.driver and found.driver.version == "unknown"
    assert found.graphics and found.graphics.cards == ()
    assert judge(found)


def test_files_that_are_folders_and_folders_that_are_files(tmp_path: Path) -> None:
    for name in ("proc/driver/nvidia/version", "etc/os-release", "proc/1/cgroup"):
        (tmp_path / name).mkdir(parents=True)
    write(tmp_path, {"dev": "", "sys/bus/pci/devices": ""})
    found = seen(tmp_path)
    assert found.troubles == {}
    assert found.driver and found.driver.version == ""
    assert exit_code(judge(found)) in (0, 1)


def test_an_empty_machine(tmp_path: Path) -> None:
    found = seen(tmp_path / "nowhere")
    assert found.troubles == {} and found.programs == {}
    assert found.shared_memory and found.shared_memory.total_bytes == 0
    assert {one.status for one in judge(found)} == {Severity.OK}


def test_each_program_is_asked_in_its_own_process(tmp_path: Path) -> None:
    dotenv = write(tmp_path, {".env": "NUM_EPOCHS=abc\nAPI_PORT=high\n"}) / ".env"
    environ = {"PATH": os.defpath, "HOME": str(tmp_path)}
    refused = REAL_REFUSED(xtts.__main__.preflights(), environ, dotenv)
    assert [(one.program, one.sentence) for one in refused] == [
        ("a run", train.preflight.refusals(dotenv)[0]),
        ("the service", api.preflight.refusals(dotenv)[0]),
    ]
    finding = surroundings.settings(MachineSettings(), refused)
    assert finding.observed == "the settings cannot be used: a run and the service would not start"


def test_a_program_that_cannot_judge_its_settings_is_told(tmp_path: Path) -> None:
    preflights = {"a run": (sys.executable, "-c", "raise SystemExit('no disk')")}
    with pytest.raises(programs.LookFailed, match="the settings of a run: no disk"):
        REAL_REFUSED(preflights, {"PATH": os.defpath}, tmp_path / ".env")


@pytest.mark.parametrize(
    ("lines", "program"),
    [
        ("NUM_EPOCHS=abc\n", "train"),
        ("BASE_MODEL=nope\n", "train"),
        ("BASE_MODEL=xtts_v2\n", "train"),
        ("DATASET_DIR=nowhere\n", "train"),
        ("API_PORT=high\n", "api"),
        ("API_HOST=0.0.0.0\n", "api"),
    ],
)
def test_what_a_program_would_refuse_is_told_in_its_own_words(
    lines: str, program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    dotenv = write(tmp_path, {".env": lines}) / ".env"
    told = {"train": train.preflight.refusals(dotenv), "api": api.preflight.refusals(dotenv)}
    refused = tuple(Refused(name, one) for name, sentences in told.items() for one in sentences)
    assert {one.program for one in refused} == {program}
    finding = surroundings.settings(MachineSettings(), refused)
    assert finding.status is Severity.FAIL
    # The program itself, in the folder of that .env; the demo's clips are at their default place.
    (tmp_path / "train").symlink_to(Path(train.__file__).parent)
    monkeypatch.chdir(tmp_path)
    main = {"train": lambda: train.__main__.main(["check"]), "api": lambda: api.__main__.main([])}
    assert main[program]() == 2
    assert capsys.readouterr().err.strip().replace(".env", str(dotenv)) == finding.meaning


def test_settings_that_both_programs_accept_are_no_finding(tmp_path: Path) -> None:
    dotenv = write(tmp_path, {".env": "NUM_EPOCHS=3\nAPI_PORT=8005\n"}) / ".env"
    assert train.preflight.refusals(dotenv) == api.preflight.refusals(dotenv) == []


def test_settings_that_are_wrong_are_a_finding(tmp_path: Path) -> None:
    found = {one.id: one for one in judge(seen(tmp_path, {"DEVICE": "tpu"}))}
    assert (
        found["settings"].status is Severity.FAIL and "DEVICE is 'tpu'" in found["settings"].meaning
    )
    assert found["disk"].status is not Severity.COULD_NOT_RUN


def test_a_gpu_asked_for_by_name_that_is_not_there(tmp_path: Path) -> None:
    found = {one.id: one for one in judge(seen(tmp_path, {"DEVICE": "cuda"}))}
    assert found["device"].status is Severity.FAIL


def test_nvidia_smi_that_hangs_is_left_behind_with_what_it_started(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    program(tmp_path / "bin", "nvidia-smi", f"echo $$ > {pid_file}; sleep 300 & sleep 300")
    started = time.monotonic()
    found = seen(
        laptop(tmp_path), {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}, managed_seconds=1.0
    )
    assert time.monotonic() - started < 30
    assert found.managed and found.managed.fault == "no answer within 1 s"
    group = int(pid_file.read_text())
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            break
        time.sleep(0.05)
    else:
        pytest.fail("what nvidia-smi started is still there")


def test_nvidia_smi_that_answers(tmp_path: Path) -> None:
    path = program(tmp_path, "nvidia-smi", f"cat <<'END'\n{SMI}\nEND")
    found = programs.managed({"nvidia-smi": str(path)}, True)
    whole, part = found.gpus
    assert (whole.capability, whole.used_bytes, whole.busy_percent) == ((8, 6), 410 << 20, 7.0)
    assert (part.used_bytes, part.busy_percent, part.capability) == (None, None, (8, 0))
    assert found.fault == "" and whole.driver_version == "560.35.03"
    assert (whole.uuid, part.uuid) == ("GPU-5ac1", "")


def test_an_old_nvidia_smi_is_asked_again_without_the_new_word(tmp_path: Path) -> None:
    path = program(
        tmp_path, "nvidia-smi",
        'case "$1" in *compute_cap*) echo \'Field "compute_cap" is not a valid field\'; exit 2;; '
        'esac; echo "0, Tesla K80, 3, 10, 11441, 470.82.01, Default"',
    )  # fmt: skip
    (gpu,) = programs.managed({"nvidia-smi": str(path)}, True).gpus
    assert (gpu.name, gpu.capability) == ("Tesla K80", None)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18", "mismatch"),
        ("echo nothing of use", "nothing of use"),
        ("kill -SEGV $$", "Segmentation"),
        ("exit 0", "lists no GPU"),
    ],
)
def test_nvidia_smi_that_fails_tells_why(tmp_path: Path, script: str, words: str) -> None:
    found = programs.managed({"nvidia-smi": str(program(tmp_path, "nvidia-smi", script))}, True)
    assert found.gpus == () and words in found.fault


def test_a_program_that_is_no_program(tmp_path: Path) -> None:
    path = write(tmp_path, {"nvidia-smi": "text"}) / "nvidia-smi"
    assert "cannot be started" in programs.managed({"nvidia-smi": str(path)}, True).fault


def test_the_kernels_log_is_read_where_it_may_be(tmp_path: Path) -> None:
    line = "[1.0] NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus."
    refused = program(tmp_path, "dmesg", "echo 'Operation not permitted' >&2; exit 1")
    journal = program(tmp_path, "journalctl", f"echo 'other'; echo '{line}'")
    asked = {"dmesg": str(refused), "journalctl": str(journal)}
    assert programs.kernel_log(asked) == (line,)
    assert programs.kernel_log({"dmesg": str(refused)}) == ()


def test_a_look_that_raises_and_one_that_never_ends() -> None:
    def late() -> None:
        time.sleep(30)

    def wrong() -> None:
        raise RuntimeError("the kernel says no")

    found: dict[str, Any] = {}
    troubles: dict[str, str] = {}
    seconds: dict[str, float] = {}
    looks = {"late": late, "wrong": wrong, "good": lambda: 7}
    collection._take(looks, 0.2, found, troubles, seconds)
    assert found == {"good": 7}
    assert troubles == {"late": "no answer within 0.2 s", "wrong": "the kernel says no"}


def test_a_disk_is_asked_about_before_the_folder_exists(tmp_path: Path) -> None:
    found = system_files.storage(tmp_path / "a" / "b")
    assert (found.place, found.writable) == (tmp_path, True) and found.free_bytes > 0
    assert not (tmp_path / "a").exists()
    (tmp_path / "file").write_text("")
    assert system_files.storage(tmp_path / "file").write_fault == "it is a file"


def test_what_is_remembered_holds_until_a_file_changes(tmp_path: Path) -> None:
    file, remembered = tmp_path / "lib.so", DoctorCache(tmp_path / "cache" / "doctor.json")
    file.write_text("one")
    key = key_of([file], ["3.11"])
    remembered.put("torch", key, {"version": "2.11"})
    assert remembered.get("torch", key_of([file], ["3.11"])) == {"version": "2.11"}
    assert remembered.get("torch", key_of([file], ["3.12"])) is None
    file.write_text("another")
    assert remembered.get("torch", key_of([file], ["3.11"])) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 1, "torch": 3}', '{"schema": 99}'])
def test_a_damaged_cache_is_no_cache(tmp_path: Path, text: str) -> None:
    path = tmp_path / "doctor.json"
    path.write_text(text)
    remembered = DoctorCache(path)
    assert remembered.get("torch", "k") is None
    remembered.put("torch", "k", {"a": 1})
    assert remembered.get("torch", "k") == {"a": 1}


def test_a_cache_that_cannot_be_written_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    DoctorCache(tmp_path / "file" / "doctor.json").put("torch", "k", {"a": 1})
    DoctorCache(None).put("torch", "k", {"a": 1})


ANSWER = {
    "version": "2.11.0", "cuda": "13.0", "cudnn": 91900, "architectures": ["sm_86"],
    "libraries": {"libcufft.so.12": ["/own/libcufft.so.12"]}, "folders": ["/own"],
}  # fmt: skip


def answering(monkeypatch: pytest.MonkeyPatch, answer: process.ProcessResult) -> list[Any]:
    """Replaces every child by one that says `answer`; the commands that were asked."""
    calls: list[Any] = []

    def ask(command: Any, *_: Any) -> process.ProcessResult:
        calls.append(command)
        return answer

    monkeypatch.setattr(programs, "run_with_timeout", ask)
    return calls


def test_torch_is_asked_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    greeting = "a library's greeting\n"
    asked = answering(monkeypatch, process.ProcessResult(0, greeting + json.dumps(ANSWER), "", 0.1))
    remembered = DoctorCache(tmp_path / "doctor.json")
    first = REAL_TORCH_BUILD({}, remembered)
    assert REAL_TORCH_BUILD({}, remembered) == first and len(asked) == 1
    assert first.libraries == {"libcufft.so.12": ("/own/libcufft.so.12",)}
    REAL_TORCH_BUILD({"LD_LIBRARY_PATH": str(tmp_path)}, remembered)
    REAL_TORCH_BUILD({}, DoctorCache(None))
    assert len(asked) == 3


def test_torch_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = "ImportError: libcudart.so.13: cannot open"
    answering(monkeypatch, process.ProcessResult(1, "", f"Traceback\n{fault}", 1.0))
    assert REAL_TORCH_BUILD({}, DoctorCache(None)).fault == fault


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            process.ProcessResult(None, "", "", 90.0, "no answer within 90 s"),
            "no answer within 90 s",
        ),
        (process.ProcessResult(0, "", "", 1.0), "no JSON"),
    ],
)
def test_torch_that_gives_no_answer(
    monkeypatch: pytest.MonkeyPatch, answer: process.ProcessResult, words: str
) -> None:
    answering(monkeypatch, answer)
    with pytest.raises(programs.LookFailed, match=words):
        REAL_TORCH_BUILD({}, DoctorCache(None))


def an_onnx_runtime(site: Path, name: str = "onnxruntime_gpu") -> Path:
    """A package as pip leaves it, with a CUDA library that cannot be loaded."""
    return write(site, {
        f"{name}-1.31.1.dist-info/METADATA": f"Name: {name}\nVersion: 1.31.1\n",
        "onnxruntime/__init__.py": "raise SystemExit('it must not be imported')",
        "onnxruntime/capi/build_and_package_info.py":
            "package_name = 'onnxruntime-gpu'\ncuda_version = '13.0'\n",
        "onnxruntime/capi/libonnxruntime_providers_cuda.so": "no library",
    })  # fmt: skip


def test_onnx_runtime_is_read_and_not_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    site = an_onnx_runtime(tmp_path / "site")
    monkeypatch.setattr(sys, "path", [str(site)])  # alone: the real one is installed for tests
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    told = json.dumps({"alone": "libcublasLt.so.13: cannot open", "with_torch": ""})
    (asked,) = [answering(monkeypatch, process.ProcessResult(0, told, "", 0.1))]
    found = programs.onnx_runtime()
    assert (found.packages, found.cuda) == ({"onnxruntime-gpu": "1.31.1"}, "13.0")
    assert found.provider_fault == "libcublasLt.so.13: cannot open"
    assert str(asked[0][-1]).endswith("libonnxruntime_providers_cuda.so")
    (site / "onnxruntime/capi/libonnxruntime_providers_cuda.so").unlink()
    assert programs.onnx_runtime().cuda == ""  # a build for the CPU has no such file
    (site / "onnxruntime/capi/build_and_package_info.py").write_text("cuda_version = (")
    assert programs.onnx_runtime().cuda == ""


def test_the_loaders_sentence_is_the_reason(tmp_path: Path) -> None:
    library = an_onnx_runtime(tmp_path) / "onnxruntime/capi/libonnxruntime_providers_cuda.so"
    assert "libonnxruntime_providers_cuda.so" in onnx_child.fault_of(str(library))
    assert onnx_child.fault_of("libc.so.6") == ""


def test_libraries_are_read_from_a_memory_map() -> None:
    maps = (
        "7f00-7f01 r-xp 00000000 fe:00 12  /a b/nvidia/cu13/lib/libcufft.so.12\n"
        "7f01-7f02 r--p 00001000 fe:00 12  /a b/nvidia/cu13/lib/libcufft.so.12\n"
        "7f02-7f03 r-xp 00000000 fe:00 13  /usr/local/cuda/lib64/libcufft.so.12\n"
        "7f03-7f04 r-xp 00000000 fe:00 14  /usr/lib/libcuda.so.1\n"
        "7f04-7f05 rw-p 00000000 00:00 0\n"
    )
    assert torch_child.loaded(maps) == {
        "libcufft.so.12": [
            "/a b/nvidia/cu13/lib/libcufft.so.12", "/usr/local/cuda/lib64/libcufft.so.12",
        ]
    }  # fmt: skip


def test_two_waveforms_are_compared_without_torch(tmp_path: Path) -> None:
    def waveform(name: str, *values: float) -> Path:
        path = tmp_path / name
        path.write_bytes(array.array("f", values).tobytes())
        return path

    one = waveform("one", 3.0, 4.0)
    assert distance(one, one) == 0.0
    assert distance(waveform("other", 3.0, 3.0), one) == pytest.approx(0.2)
    assert distance(waveform("short", 3.0), one) is None
    assert distance(tmp_path / "missing", one) is None
