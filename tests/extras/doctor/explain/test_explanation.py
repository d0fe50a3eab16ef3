"""`python -m xtts explain`, from the command line to text, JSON and exit code."""

import json
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from extras.common.answers import ChildReply
from extras.common.onnxruntime.providers import CPU, CUDA, parse_provider
from extras.common.onnxruntime.sessions import Inspectors
from extras.doctor.explain import explanation, running_child
from extras.doctor.explain.graph import ExplainError, read
from tests.extras.common.onnxruntime import onnx_evidence as seen
from tests.extras.doctor.explain.kinds import Sketch, arcface, written
from xtts.__main__ import main, parser_of_all


def a_node(operator: str = "Relu", domain: str = "", opset: int = 17, ir: int = 8) -> bytes:
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 3]) for name in "xy"]
    node = helper.make_node(operator, ["x"], ["y"], "only", domain=domain)
    opsets = [helper.make_opsetid("", opset)]
    opsets += [helper.make_opsetid(domain, 1)] if domain else []
    graph = helper.make_graph([node], "g", value[:1], value[1:])
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir).SerializeToString()


def with_weights_beside(folder: Path, cut: bool) -> Path:
    path = folder / "beside.onnx"
    onnx.save(arcface(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    weights = folder / "weights.bin"
    if cut:
        weights.write_bytes(weights.read_bytes()[:1000])
    else:
        weights.unlink()
    return path


def with_weights_at(folder: Path, location: str) -> Path:
    """The weights exist, but outside the model's folder."""
    path = folder / "model" / "m.onnx"
    path.parent.mkdir()
    onnx.save(arcface(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    (path.parent / "weights.bin").rename(folder / "weights.bin")
    (path.parent / "link.bin").symlink_to(folder / "weights.bin")
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            entry.value = location if entry.key == "location" else entry.value
    path.write_bytes(model.SerializeToString())
    return path


def sketched(folder: Path, kind: int, shape: list, *into: int) -> Path:
    """A model with one input x, reshaped if `into` is given."""
    sketch = Sketch({"x": (kind, shape)})
    made = sketch.add("Reshape", "x", sketch.whole(*into)) if into else "x"
    model = sketch.model({sketch.add("Identity", made): "y"})
    model.graph.output[0].type.tensor_type.elem_type = kind
    onnx.save(model, folder / "sketched.onnx")
    return folder / "sketched.onnx"


def file(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


BROKEN: dict[str, tuple[Callable[[Path], Path], str]] = {
    "missing path": (lambda d: d / "none.onnx", "none.onnx does not exist"),
    "folder": (lambda d: written("ECAPA", d).parent, "is a folder; name the .onnx file. It holds ecapa.onnx"),
    "nonsense": (lambda d: file(d, "n.onnx", bytes(range(7, 200)) * 3), "n.onnx is not an ONNX model"),
    "text": (lambda d: file(d, "t.onnx", b"hello, world\n"), "t.onnx is not an ONNX model"),
    "empty": (lambda d: file(d, "e.onnx", b""), "e.onnx holds no graph"),
    "cut short": (
        lambda d: file(d, "c.onnx", written("Piper", d).read_bytes()[:1500]),
        "c.onnx is truncated (1,500 bytes)",
    ),
    "pointer of Git LFS": (
        lambda d: file(d, "p.onnx", b"version https://git-lfs.github.com/spec"),
        "git lfs pull",
    ),
    ".ort": (lambda d: file(d, "o.ort", b"\x00\x01\x02\x03ORTM....."), "(.ort)"),
    "weights missing": (
        lambda d: with_weights_beside(d, cut=False),
        "keeps its weights in weights.bin, which is missing",
    ),
    "weights cut short": (
        lambda d: with_weights_beside(d, cut=True),
        "weights.bin is truncated: it has 1,000 bytes",
    ),
    "unknown operator": (
        lambda d: file(d, "u.onnx", a_node("Frobnicate")),
        "has the operator Frobnicate, which opset 17 of ONNX does not have",
    ),
    "operator of another library": (
        lambda d: file(d, "l.onnx", a_node("Foo", "my.ops")),
        "has the operator Foo of my.ops",
    ),
    "opset too new": (lambda d: file(d, "s.onnx", a_node(opset=99)), "has opset 99, and this"),
    "opset too old": (
        lambda d: file(d, "o.onnx", a_node("Sigmoid", opset=5, ir=3)),
        "has opset 5, and ONNX Runtime has no kernel for its operator Sigmoid",
    ),
    "weights in another folder": (
        lambda d: with_weights_at(d, "../weights.bin"),
        "keeps its weights in ../weights.bin, outside of",
    ),
    "weights at a place of their own": (
        lambda d: with_weights_at(d, "/etc/passwd"),
        "keeps its weights in /etc/passwd, outside of",
    ),
    "weights behind a link": (
        lambda d: with_weights_at(d, "link.bin"),
        "weights in link.bin, which is a link to another folder",
    ),
    "format too new": (lambda d: file(d, "f.onnx", a_node(ir=99)), "ONNX format 99"),
}


@pytest.fixture
def child_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does the child's work in this process, where everything is imported. The tests of text, JSON
    and another provider start the real child."""

    def answer(_command: object, _limit_seconds: float, *, request: dict) -> ChildReply:
        return ChildReply(0, "", "", 0.1, answer=running_child.answer(request))

    monkeypatch.setattr(explanation, "ask_once", answer)


@pytest.mark.usefixtures("child_in_this_process")
@pytest.mark.parametrize("broken", BROKEN)
def test_what_cannot_be_explained_is_told_in_one_line(broken, tmp_path, capsys):
    make, told = BROKEN[broken]
    path = make(tmp_path)
    assert main(["explain", str(path), "--provider", "cpu"]) == 2
    out, errors = capsys.readouterr()
    assert out == "" and errors.count("\n") == 1 and "Traceback" not in errors
    assert told in errors and str(path.parent) in errors


@pytest.mark.usefixtures("child_in_this_process")
@pytest.mark.parametrize(
    ("model", "told", "cured_by"),
    [
        # Too many numbers; text, which cannot be made up; a size that no guess fits.
        ((TensorProto.FLOAT, [1, 100_000, 100_000]), "250,000,000", None),
        ((TensorProto.STRING, ["N"]), "'x' needs text", ()),
        ((TensorProto.FLOAT, ["n"], 7, 11), "its inputs are x [n].", ("--run", "x=77")),
    ],
)
def test_a_model_that_cannot_be_run_says_why_and_is_explained_all_the_same(
    model, told, cured_by, tmp_path, capsys
):
    words = ["explain", str(sketched(tmp_path, *model)), "--provider", "cpu"]
    assert main([*words, "--run"]) == 2
    assert told in capsys.readouterr().err
    if cured_by is not None:
        run, shape = cured_by or ("--json", "")
        assert main([*words, run, *(["--shape", shape] if shape else [])]) == 0
        assert shape or json.loads(capsys.readouterr().out)["run"] is None


def test_it_is_told_in_words(tmp_path, capsys):
    path = written("ECAPA", tmp_path)
    assert main(["explain", str(path), "--run", "--provider", "cpu"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("ecapa.onnx: 0.1 MB, opset 17, exported by tests\n")
    assert "Runs on cpu (CPUExecutionProvider)." in told
    assert "Is that normal?\n  Yes: the CPU was requested" in told
    assert "run with [1, 200, 80]" in told and "median of" in told and "MB at peak" in told


def test_the_json_holds_what_the_text_says(tmp_path, capsys):
    path = written("YuNet", tmp_path)
    arguments = ("--run", "--json", "--provider", "cpu", "--shape", "input=1,3,64,96")
    assert main(["explain", str(path), *arguments]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == 1 and told["status"]["execution_provider"] == CPU
    assert told["run"]["plan"][0]["shape"] == [1, 3, 64, 96]
    assert told["nodes"][CPU]["Conv"] == 6 and told["copies"] == 0
    assert sum(told["on_a_gpu"].values()) == sum(told["nodes"][CPU].values())
    assert told["on_a_gpu"]["gpu"] == 12  # 6 convolutions, 2 sigmoids, Relu, MaxPool, Resize, Add
    assert told["memory"]["peak_bytes"] >= told["memory"]["loaded_bytes"] > 0
    assert told["run"]["activity"]["cpu_percent"] >= 0
    assert {row["provider"] for row in told["run"]["executed"]} == {CPU}


def test_a_wish_that_fails_is_told_and_explained_on_the_cpu(tmp_path, capsys):
    assert main(["explain", str(written("ECAPA", tmp_path)), "--provider", "directml"]) == 0
    told = capsys.readouterr().out
    assert "only on Windows" in told and "No: an accelerator was requested" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--provider", "gpu"), "'gpu' is not a provider"),
        (("--run", "--shape", "feats"), "NAME=1,80,200"),
        (("--run", "--shape", "feats=1,0,80"), "NAME=1,80,200"),
        (("--run", "--shape", "other=1"), "no such input"),
    ],
)
def test_what_is_asked_wrongly_is_told(arguments, told, tmp_path, capsys):
    assert main(["explain", str(written("ECAPA", tmp_path)), *arguments]) == 2
    assert told in capsys.readouterr().err


def test_a_model_that_ends_its_process_ends_nothing_else(tmp_path, monkeypatch):
    graph = read(written("ECAPA", tmp_path))
    died = ChildReply(-11, "", "", 0.1)
    monkeypatch.setattr(explanation, "ask_once", lambda *_, **__: died)
    with pytest.raises(ExplainError, match="Segmentation fault"):
        explanation.explain(graph, parse_provider("cpu"), [])


def test_a_model_that_the_accelerator_refuses_is_explained_on_the_cpu(tmp_path, monkeypatch):
    graph = read(written("ECAPA", tmp_path))
    asked = explanation._ask_child

    def refusing(graph, provider, got, plans):
        if provider == CUDA:
            return {"fault": "Fail: no kernel for dynamic rank"}, ""
        return asked(graph, provider, got, plans)

    monkeypatch.setattr(explanation, "_ask_child", refusing)
    looks = Inspectors(lambda: seen.GPU_BUILD, lambda _: seen.working(CUDA))
    found = explanation.explain(graph, parse_provider("cuda"), [], looks)
    assert found["status"]["reason_code"] == "refused_model"
    assert "dynamic rank" in found["status"]["message"] and found["nodes"].keys() == {CPU}


def test_a_refusal_is_json_where_json_was_asked_for(tmp_path, capsys):
    path = file(tmp_path, "t.onnx", b"hello, world\n")
    assert main(["explain", str(path), "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["exit_code"] == 2 and "is not an ONNX model" in told["error"]


def test_an_option_named_as_a_part_of_the_parser_is_an_option():
    """`--run` once replaced the function that runs the verb."""
    parsed = parser_of_all().parse_args(["explain", "model.onnx", "--run"])
    assert parsed.run is True and callable(parsed.run_verb)
