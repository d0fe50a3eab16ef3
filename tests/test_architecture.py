"""The rules of the house: who may import whom, how large a module and a folder may be, which names
are unique, where the environment is read.

Read from the syntax tree, so that a rule is broken by the line that breaks it, run or not.
"""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGES = ("machine", "xtts", "train", "api", "demo_voice", "benchmarks")
MODULES = sorted(path.relative_to(ROOT) for one in PACKAGES for path in (ROOT / one).rglob("*.py"))
MOST_LINES = 600
MOST_FUNCTION_LINES = 60
MOST_MODULES_IN_A_FOLDER = 16

# Arrows are imports; there are no others.
MAY_NOT_IMPORT = {
    "machine": ("xtts", "train", "api", "demo_voice", "benchmarks", "tests"),
    "xtts": ("train", "api", "demo_voice", "benchmarks", "tests"),
    "train": ("api", "demo_voice", "benchmarks", "tests"),
    "api": ("train", "demo_voice", "benchmarks", "tests"),
    "demo_voice": ("api", "tests"),
    "benchmarks": ("tests",),
}
# Coqui's learning part and trainer drag transformers in (8.9 s against 2.6 s) and have broken with
# it: they are the reference in tests/peers and benchmarks, never on our path.
PEERS_ONLY = (
    "transformers",
    "trainer",
    "TTS.tts.models.xtts",
    "TTS.tts.layers.xtts.gpt",
    "TTS.tts.layers.xtts.trainer",
    "TTS.tts.layers.tortoise.arch_utils",
)
VAGUE = {"utils", "util", "helpers", "helper", "core", "manager", "service", "common", "misc"}
# The settings read the environment. The others, and why:
READS_ENVIRONMENT = {
    "machine/settings/loading.py": "command line, environment, .env",
    "machine/storage/atomic.py": "SOTAQUE_CRASH_AT: tests kill a writer at a named point",
    "train/distributed.py": "RANK, WORLD_SIZE and their like: torchrun's, not a person's",
    "machine/devices/probe/runner.py": "what its children inherit; where a user's caches are",
    "machine/devices/probe/child.py": "SOTAQUE_PROBE_FAULT: tests make the check fail",
    "machine/doctor/readings/collection.py": "libraries and GPUs it chooses: that is judged",
    "api/datasets/cutting.py": "what a cut inherits, and one thread",
    "train/cutting/workers/over_ray.py": "RAY_ADDRESS, and what Ray reads when it is imported",
    "api/voices/recordings.py": "what the decoder of uploads inherits, and one thread",
    "xtts/workers/file_worker_main.py": "SOTAQUE_WORKER_FAULT: tests make the worker fail",
    "machine/threads.py": "sets how OpenMP waits, before torch starts it",
    "machine/memory.py": "sets how much oneDNN keeps, before torch computes",
}
# From so many lines on a module of these packages has a test file of its name.
LEAST_TESTED_LINES = 150
TESTED_PACKAGES = ("machine", "xtts", "train", "api")
# The others: the file that tests them, and why that one.
_PHRASES = ("tests/xtts/text/normalization/test_phrases.py", "rules that phrases of a table test")
_PROBE = ("tests/machine/devices/probe/test_probe.py", "the probe is tested from end to end")
_SPEECH = ("tests/api/routes/test_speech_routes.py", "tested by what a client hears and is told")
_EXPORT = ("tests/xtts/onnx/export/test_exporter.py", "what a graph computes is that of its file")
_CUTTING = ("tests/train/cutting/test_command.py", "one recording cut from end to end for all")
_DATASETS = ("tests/api/routes/test_dataset_routes.py", "as a client meets them, over HTTP")
_CONTRACT = ("tests/api/test_contract.py", "the whole of the routes against their description")
TESTED_ELSEWHERE = {
    "api/app.py": _CONTRACT,
    "api/dataset_schemas.py": _CONTRACT,
    "api/datasets/clips.py": _DATASETS,
    "api/datasets/cutting.py": _DATASETS,
    "api/datasets/store.py": _DATASETS,
    "api/datasets/uploads.py": _DATASETS,
    "api/engine/engine.py": _SPEECH,
    "api/routes/datasets.py": _DATASETS,
    "api/http/acceptor.py": ("tests/api/http/test_connections.py", "real clients, one service"),
    "api/middleware.py": _SPEECH,
    "api/response_schemas.py": _CONTRACT,
    "api/runs/listing.py": ("tests/api/routes/test_run_routes.py", "as /v1/runs tells it"),
    "api/speech/response.py": _SPEECH,
    "api/voices/recordings_child.py": ("tests/api/voices/test_recordings.py", "by its parent"),
    "machine/devices/probe/cache.py": _PROBE,
    "machine/devices/probe/child.py": _PROBE,
    "machine/devices/probe/operations.py": _PROBE,
    "machine/devices/probe/runner.py": _PROBE,
    "train/cutting/cutter.py": _CUTTING,
    "train/cutting/dataset_folder.py": _CUTTING,
    "train/cutting/alignment/recogniser.py": _CUTTING,
    "train/cutting/listening.py": _CUTTING,
    "train/inspection/measuring.py": (
        "tests/train/inspection/test_suspects.py", "a dataset looked at as a whole",
    ),
    "xtts/hub/evaluation_file.py": ("tests/train/evaluation/test_evaluator.py", "as it is written"),
    "xtts/inference/decoding.py": (
        "tests/xtts/inference/test_sampling_rules.py", "beside the rules in numpy",
    ),
    "xtts/inference/loaded_voice.py": ("tests/xtts/test_public_api.py", "both kinds of it"),
    "xtts/onnx/export/graphs.py": _EXPORT,
    "xtts/text/normalization/east_asian.py": _PHRASES,
    "xtts/text/normalization/germanic.py": _PHRASES,
    "xtts/text/normalization/language_rules.py": _PHRASES,
    "xtts/text/normalization/other_languages.py": _PHRASES,
    "xtts/text/normalization/romance.py": _PHRASES,
    "xtts/text/normalization/slavic.py": _PHRASES,
}  # fmt: skip


class Import(NamedTuple):
    module: str
    line: int


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), str(path))


@cache
def imports(path: Path) -> tuple[Import, ...]:
    return tuple(imports_of(tree(path), path))


def imports_of(module: ast.Module, path: Path) -> Iterator[Import]:
    """Every import, those inside functions too; `from a import b` is a and a.b."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            name = str(node.module)
            yield Import(name, node.lineno)
            yield from (Import(f"{name}.{alias.name}", node.lineno) for alias in node.names)


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def test_there_is_something_to_judge() -> None:
    assert {path.parts[0] for path in MODULES} == set(PACKAGES)
    assert len(MODULES) > 50


def test_a_module_imports_only_what_its_package_may() -> None:
    broken = [
        f"{path}:{one.line}: {one.module}"
        for path in MODULES
        for one in imports(path)
        if any(within(one.module, name) for name in MAY_NOT_IMPORT[path.parts[0]])
    ]
    assert broken == []


def test_no_modules_import_each_other() -> None:
    """Not in a circle of any length, not inside functions, and not for types only."""
    modules = {dotted(path): path for path in MODULES}
    edges = {
        name: {one.module for one in imports(path) if one.module in modules} - {name}
        for name, path in modules.items()
    }
    # A package's own module is imported with each of its modules; it does no work.
    edges = {
        name: {one for one in to if not name.startswith(one + ".")} for name, to in edges.items()
    }
    while leaves := {name for name, to in edges.items() if not to & edges.keys()}:
        edges = {name: to for name, to in edges.items() if name not in leaves}
    # What only imports a circle, without being in it, goes too.
    while roots := edges.keys() - {one for to in edges.values() for one in to}:
        edges = {name: to for name, to in edges.items() if name not in roots}
    assert {name: sorted(to & edges.keys()) for name, to in edges.items()} == {}


def dotted(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def test_a_folder_holds_what_can_be_read_at_a_glance() -> None:
    counts = Counter(
        str(path.parent)
        for path in MODULES
        if path.parts[0] != "benchmarks" and path.name != "__init__.py"
    )
    full = {folder: count for folder, count in counts.items() if count > MOST_MODULES_IN_A_FOLDER}
    assert full == {}


def test_the_name_of_a_public_class_means_one_thing() -> None:
    homes: dict[str, list[str]] = {}
    for path in MODULES:
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and node.name[0] != "_":
                homes.setdefault(node.name, []).append(str(path))
    shared = {name: paths for name, paths in homes.items() if len(paths) > 1}
    assert shared == {}


def test_coquis_learning_part_is_for_comparison_only() -> None:
    broken = [
        f"{path}:{one.line}: {one.module}"
        for path in MODULES
        if path.parts[0] != "benchmarks"
        for one in imports(path)
        if any(within(one.module, name) for name in PEERS_ONLY)
    ]
    assert broken == []


def test_only_the_tests_beside_coqui_import_its_learning_part() -> None:
    tests = [path.relative_to(ROOT) for path in (ROOT / "tests").rglob("*.py")]
    users = {
        path.parts[1]
        for path in tests
        if any(within(one.module, name) for one in imports(path) for name in PEERS_ONLY)
    }
    assert users <= {"peers", "benchmarks"}


def test_a_module_has_one_subject_and_a_function_fits_on_a_screen() -> None:
    modules = [
        f"{path}: {lines} lines" for path in MODULES if (lines := line_count(path)) > MOST_LINES
    ]
    functions = [
        f"{path}:{node.lineno}: {node.name} has {length(node)} lines"
        for path in MODULES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and length(node) > MOST_FUNCTION_LINES
    ]
    assert modules + functions == []


def line_count(path: Path) -> int:
    return len((ROOT / path).read_text(encoding="utf-8").splitlines())


def length(node: ast.stmt) -> int:
    return int(node.end_lineno or 0) - node.lineno + 1


def test_names_say_what_a_module_is() -> None:
    vague = [
        str(path)
        for path in MODULES
        if VAGUE & {word for part in path.with_suffix("").parts for word in part.split("_")}
    ]
    assert vague == []


def test_a_module_says_what_it_is() -> None:
    assert [str(path) for path in MODULES if not ast.get_docstring(tree(path))] == []


def test_nothing_loads_what_could_run() -> None:
    """A pickle may run anything: torch.load always says weights_only=True."""
    assert [line for path in MODULES for line in unsafe_loads(path)] == []


def unsafe_loads(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if not isinstance(node, ast.Call):
            continue
        safe = {word.arg: ast.unparse(word.value) for word in node.keywords}.get("weights_only")
        loads = ast.unparse(node.func) == "torch.load"
        if safe not in (None, "True") or (loads and safe != "True"):
            yield f"{path}:{node.lineno}: {ast.unparse(node.func)} with weights_only={safe}"
    runnable = {"pickle", "dill", "cloudpickle", "joblib", "shelve"}
    yield from (
        f"{path}:{one.line}: {one.module}" for one in imports(path) if one.module in runnable
    )


def test_the_environment_is_read_in_one_place() -> None:
    readers = [
        f"{path}: {', '.join(sorted(names))}"
        for path in MODULES
        if str(path) not in READS_ENVIRONMENT and (names := environment_names(path))
    ]
    assert readers == []


def environment_names(path: Path) -> set[str]:
    """What a module takes of os that reads or changes the environment."""
    asked = {"environ", "environb", "getenv", "putenv", "unsetenv"}
    of_os = {
        node.attr
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "os"
    }
    by_name = {one.module.removeprefix("os.") for one in imports(path) if within(one.module, "os")}
    return (of_os | by_name) & asked


def test_the_exceptions_are_still_needed() -> None:
    for name in READS_ENVIRONMENT:
        assert "environ" in (ROOT / name).read_text(encoding="utf-8"), name


def test_importing_a_package_does_no_work() -> None:
    """Not even torch: `--help` and a mistyped setting answer at once."""
    code = (
        "import sys; before = set(sys.modules); import machine, xtts, train, api;"
        "import benchmarks, demo_voice;"
        "import machine.settings.loading, train.settings, api.settings;"
        "import train.__main__, xtts.__main__;"
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    loaded = set(done.stdout.split())
    assert {"xtts", "train", "api"} <= loaded
    heavy = {"torch", "torchaudio", "TTS", "numpy", "transformers", "soundfile", "tensorboard"}
    assert loaded & heavy == set()


def test_every_command_that_is_told_can_be_run() -> None:
    """`python -m MODULE` in a sentence, a page, the Makefile or a Dockerfile: it has a main."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*.yml")]
    pages += [ROOT / one for one in ("Makefile", "Dockerfile", *MODULES)]
    ours = "|".join((*PACKAGES, "tests"))
    named = {
        (name, str(page.relative_to(ROOT)))
        for page in pages
        for name in re.findall(
            rf"(?:-m\"?,? \"?|\$\(RUN\) )((?:{ours})(?:\.[a-z_]+)*)",
            page.read_text(encoding="utf-8"),
        )
    }
    assert len(named) > 30
    assert {one for one in named if not runs_as_program(one[0])} == set()


def runs_as_program(module: str) -> bool:
    path = ROOT / module.replace(".", "/")
    if path.is_dir():
        return (path / "__main__.py").is_file()
    path = path.with_suffix(".py")
    return path.is_file() and 'if __name__ == "__main__":' in path.read_text(encoding="utf-8")


def test_a_module_only_defines() -> None:
    """At its top a module defines names; calls there are of the few kinds that make a constant."""
    working = [
        f"{path}:{node.lineno}: {ast.unparse(node).splitlines()[0]}"
        for path in MODULES
        for node in tree(path).body
        if isinstance(node, ast.For | ast.While | ast.With | ast.Try)
        or (isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant))
    ]
    assert working == []


def test_the_tests_stand_as_the_code_does() -> None:
    """tests/train/optim/test_x.py is about train/optim/x.py, or about something that a person asks
    of that folder."""
    for package in ("machine", "xtts", "train", "api", "demo_voice"):
        top = ROOT / "tests" / package
        tests = [
            path.relative_to(ROOT / "tests")
            for path in top.rglob("test_*.py")
            if path.parent.name != "page"  # the page's modules are JavaScript
        ]
        assert [str(path) for path in tests if not (ROOT / path.parent).is_dir()] == []
        names = {path.stem.removeprefix("test_") for path in tests}
        modules = {path.stem for path in MODULES if path.parts[0] == package}
        assert len(names & modules) >= len(names) / 3, package


def test_a_module_of_substance_has_a_test_file_of_its_name() -> None:
    large = [
        path
        for path in MODULES
        if path.parts[0] in TESTED_PACKAGES
        and path.name != "__init__.py"
        and line_count(path) >= LEAST_TESTED_LINES
    ]
    untested = {str(path) for path in large if not (ROOT / own_test_of(path)).is_file()}
    assert sorted(untested - TESTED_ELSEWHERE.keys()) == []
    # An exception goes when its module is small or gone, or has a file of its own.
    assert sorted(TESTED_ELSEWHERE.keys() - untested) == []
    told = {name: test for name, (test, _) in TESTED_ELSEWHERE.items()}
    assert [name for name, test in told.items() if not (ROOT / test).is_file()] == []


def own_test_of(path: Path) -> Path:
    """train/optim/ema.py -> tests/train/optim/test_ema.py; a __main__ is test_main."""
    return Path("tests") / path.parent / f"test_{path.stem.strip('_')}.py"
