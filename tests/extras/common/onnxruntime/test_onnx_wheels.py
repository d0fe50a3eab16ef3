"""The real builds of ONNX Runtime, each in a separate environment, on a machine without a GPU.

Only NVIDIA's driver is simulated: a libcuda.so.1 of a few lines returns one error code to the real
onnxruntime-gpu. Needs gcc and access to the packages (300 MB).
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.numpy_helper import from_array

from extras.common.onnxruntime.providers import CPU, CUDA, OPENVINO, PROVIDER_KINDS

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="about machines without a GPU"),
]

ROOT = Path(__file__).parents[4]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
NVIDIA = sorted(Path(place) / "nvidia" for place in sys.path if (Path(place) / "nvidia/cu13").is_dir())
ASKING = """
import json, sys
from pathlib import Path
from extras.common.onnxruntime.sessions import open_session
model, *wishes = sys.argv[1:]
print(json.dumps({one: open_session(Path(model), one).status.as_dict() for one in wishes}))
"""
DRIVER = """
int cuGetErrorString(int e, const char **s) { return 0; }
int cuTensorMapEncodeTiled(void) { return 3; }
int cuInit(unsigned flags) { return %d; }
int cuDriverGetVersion(int *version) { *version = %d; return 0; }
"""


@dataclass(frozen=True)
class Build:
    """An environment with one or two builds of ONNX Runtime."""

    folder: Path
    libraries: tuple[Path, ...] = ()

    @property
    def python(self) -> Path:
        return self.folder / "bin/python"

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        environ = {name: value for name, value in os.environ.items() if not name.startswith("LD_")}
        environ |= {"PYTHONPATH": str(ROOT), "LD_LIBRARY_PATH": ":".join(map(str, self.libraries))}
        return subprocess.run(
            [str(self.python), *words],
            env=environ,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def statuses(self, model: Path, *wishes: str) -> dict[str, dict]:
        done = self.run("-c", ASKING, str(model), *wishes)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    def cuda(self, model: Path) -> dict:
        return self.statuses(model, "cuda")["cuda"]


def version_of(name: str) -> str:
    found = re.search(rf"^{name}==([\w.]+)", LOCK, re.MULTILINE)
    assert found, f"{name} is not in requirements.lock"
    return found[1]


def installed(folder: Path, *steps: Sequence[str]) -> Build:
    """steps: packages of ONNX Runtime, installed in this order after the three that we import."""
    names = ("filelock", "pydantic", "nvidia-ml-py")
    ours = [f"{name}=={version_of(name)}" for name in names]
    uv("venv", "-q", "--python", sys.executable, str(folder))
    for packages in (ours, *steps):
        uv("pip", "install", "-q", "--python", str(folder / "bin/python"), *packages)
    return Build(folder)


def uv(*words: str) -> None:
    program = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert program, "uv is missing: .venv/bin/python -m pip install uv"
    subprocess.run([program, *words], check=True, timeout=900)


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Build:
    packages = (f"onnxruntime-gpu=={version_of('onnxruntime')}", f"onnx=={version_of('onnx')}")
    return installed(tmp_path_factory.mktemp("builds") / "gpu", packages)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Build:
    version = version_of("onnxruntime")
    steps = (f"onnxruntime-gpu=={version}",), (f"onnxruntime=={version}",)
    return installed(tmp_path_factory.mktemp("builds") / "two", *steps)


@pytest.fixture(scope="module")
def openvino(tmp_path_factory: pytest.TempPathFactory) -> Build:
    folder = tmp_path_factory.mktemp("builds") / "openvino"
    return installed(folder, ("onnxruntime-openvino", f"onnx=={version_of('onnx')}"))


@pytest.fixture(scope="module")
def silero(gpu: Build) -> Path:
    """The published model, taken from its package without the package's dependencies."""
    target = gpu.folder / "silero"
    words = ("--python", str(gpu.python), "--no-deps", "--target", str(target))
    uv("pip", "install", "-q", *words, "silero-vad>=6")
    return target / "silero_vad/data/silero_vad.onnx"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A product, an operator that only the CPU has, a product: no accelerator can run it all."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["first"]),
        helper.make_node("Inverse", ["first"], ["middle"], domain="com.microsoft"),
        helper.make_node("MatMul", ["middle", "u"], ["last"]),
        helper.make_node("Relu", ["last"], ["y"]),
    ]
    given, made = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 8]) for name in ("x", "y"))
    draw = np.random.default_rng(0)
    weights = [from_array(draw.standard_normal((8, 8)).astype(np.float32), name) for name in ("w", "u")]
    graph = helper.make_graph(nodes, "mixed", [given], [made], weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    made_model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    path = tmp_path_factory.mktemp("model") / "mixed.onnx"
    onnx.save(made_model, path)
    return path


# For each build and requested provider: the execution provider and the reason code.
ELSEWHERE = {
    "rocm": (CPU, "not_in_build"),
    "directml": (CPU, "wrong_platform"),
    "openvino": (CPU, "not_in_build"),
    "cpu": (CPU, ""),
}
PAIRS = {
    "gpu": {**ELSEWHERE, "auto": (CPU, "missing_library"), "cuda": (CPU, "missing_library")},
    "two": {**ELSEWHERE, "auto": (CPU, "two_builds"), "cuda": (CPU, "two_builds")},
    "openvino": {
        **ELSEWHERE,
        "auto": (OPENVINO, "heavy_on_cpu"),
        "cuda": (CPU, "not_in_build"),
        "openvino": (OPENVINO, "heavy_on_cpu"),
        "openvino:GPU": (CPU, "no_gpu"),
    },
}


@pytest.mark.parametrize("name", PAIRS)
def test_every_wish_with_every_build(name, model, request):
    expected = PAIRS[name]
    assert expected.keys() >= set(PROVIDER_KINDS)
    found = request.getfixturevalue(name).statuses(model, *expected)
    told = {wish: (status["execution_provider"], status["reason_code"]) for wish, status in found.items()}
    assert told == expected
    for wish, status in found.items():
        assert bool(status["message"]) == bool(status["reason_code"]), wish
        assert status["cpu_nodes"] + status["accelerator_nodes"] == 4
        assert (status["accelerator_nodes"] == 0) == (status["execution_provider"] == CPU)


def test_the_gpu_build_lies_and_we_do_not(gpu, model):
    lie = gpu.run("-c", "import onnxruntime as o; print(o.get_available_providers())")
    assert CUDA in lie.stdout
    told = gpu.cuda(model)
    assert (told["device"], told["requested_provider"]) == ("cpu", CUDA)
    assert re.search(r"libcu\w+\.so\.\d+ is missing, a library of CUDA 13\.0", told["message"])
    assert "this machine shows no NVIDIA GPU" in told["message"]
    assert "'onnxruntime-gpu[cuda,cudnn]'" in told["message"]


@pytest.mark.skipif(not NVIDIA, reason="torch is here without CUDA's libraries")
def test_with_cudas_libraries_the_driver_is_what_is_missing(gpu, model):
    told = Build(gpu.folder, tuple(NVIDIA[0].glob("*/lib"))).cuda(model)
    assert told["reason_code"] == "no_driver"
    assert "this machine has no libcuda.so.1" in told["message"]


@pytest.mark.skipif(not NVIDIA, reason="torch is here without CUDA's libraries")
@pytest.mark.parametrize(
    ("code", "version", "reason"),
    [
        (0, 12_000, "driver_too_old"),
        (100, 13_000, "no_gpu"),
        (2, 13_000, "out_of_memory"),
        (46, 13_000, "gpu_busy"),
        (802, 13_000, "driver_broken"),
        (803, 13_000, "driver_broken"),
        (804, 13_000, "driver_broken"),
        (999, 13_000, "driver_broken"),
    ],
)
def test_what_a_driver_answers_is_told(code, version, reason, gpu, model, tmp_path):
    assert shutil.which("gcc"), "gcc is missing: apt-get install gcc"
    (tmp_path / "driver.c").write_text(DRIVER % (code, version))
    library = tmp_path / "libcuda.so.1"
    build = "gcc -shared -fPIC -Wl,-soname,libcuda.so.1 -o".split()
    subprocess.run([*build, library, tmp_path / "driver.c"], check=True)
    told = Build(gpu.folder, (tmp_path, *NVIDIA[0].glob("*/lib"))).cuda(model)
    assert (told["reason_code"], told["execution_provider"]) == (reason, CPU)
    assert "To fix it: " in told["message"]


def test_a_model_that_an_accelerator_refuses_runs_on_the_cpu(openvino, silero):
    found = openvino.statuses(silero, "openvino")["openvino"]
    assert (found["execution_provider"], found["reason_code"]) == (CPU, "refused_model")
    assert "It does not accept this model" in found["message"]
