"""Architecture rules: who may import what, read the environment, and work at import time.

They read the syntax tree, so they also cover lines that no test runs.
"""

import ast
import importlib
import re
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.installed import is_deleted

ROOT = Path(__file__).parents[1]
PACKAGES = ("machine", "xtts", "train", "api", "extras", "demo_voice", "benchmarks")
MODULES = sorted(path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

# Each package, and the packages that it must not import.
MAY_NOT_IMPORT = {
    "machine": ("xtts", "train", "api", "demo_voice", "benchmarks", "tests"),
    "xtts": ("train", "api", "demo_voice", "benchmarks", "tests"),
    "train": ("api", "demo_voice", "benchmarks", "tests"),
    "api": ("train", "demo_voice", "benchmarks", "tests"),
    "extras": ("demo_voice", "benchmarks", "tests"),
    "demo_voice": ("api", "tests"),
    "benchmarks": ("tests",),
}
# Coqui's learning part and trainer import transformers (8.9 s against 2.6 s) and have broken with
# it: they are the reference in tests/peers and benchmarks, never a dependency of our code.
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
    "machine/storage/files.py": "SOTAQUE_CRASH_AT: tests kill a writer at a named point",
    "train/distributed.py": "RANK, WORLD_SIZE and their like: torchrun's, not a person's",
    "machine/devices/probe.py": "what its children inherit; where a user's caches are",
    "xtts/voices/files/unpacking.py": "where a user's caches are",
    "extras/doctor/collection.py": "libraries and GPUs it chooses: that is judged",
    "extras/common/work_queue.py": "what background work inherits",
    "extras/common/steps.py": "RAY_ADDRESS",
    "extras/ray/ray_steps.py": "what Ray reads when it is imported",
    "api/voices/recordings.py": "what the decoder of uploads inherits, and one thread",
    "machine/onnxruntime.py": "turns off ONNX Runtime's telemetry, before it is imported",
    "machine/commands.py": "which Python environment is active in the user's shell",
    "machine/threads.py": "sets how OpenMP waits, before torch starts it",
    "machine/memory.py": "sets how much oneDNN keeps, before torch computes",
}


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
    """Every import, including those inside functions; `from a import b` is a and a.b."""
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


def test_there_is_something_to_judge():
    assert {path.parts[0] for path in MODULES} == set(PACKAGES)
    assert len(MODULES) > 50


def test_a_module_imports_only_what_its_package_may():
    broken = [
        f"{path}:{one.line}: {one.module}"
        for path in MODULES
        for one in imports(path)
        if any(within(one.module, name) for name in MAY_NOT_IMPORT[path.parts[0]])
    ]
    assert broken == []


def test_normalization_has_one_door():
    package = "xtts.text.normalization"
    broken = [
        f"{path}:{one.line}: {one.module}"
        for path in MODULES
        if not within(dotted(path), package)
        for one in imports(path)
        if within(one.module, package) and not within(one.module, f"{package}.registry")
    ]
    assert broken == []


def test_no_modules_import_each_other():
    """No circle of any length, not even inside functions or for types."""
    modules = {dotted(path): path for path in MODULES}
    edges = {
        name: {one.module for one in imports(path) if one.module in modules} - {name}
        for name, path in modules.items()
    }
    # Importing a module also imports its package's own module, which does no work.
    edges = {name: {one for one in to if not name.startswith(one + ".")} for name, to in edges.items()}
    while leaves := {name for name, to in edges.items() if not to & edges.keys()}:
        edges = {name: to for name, to in edges.items() if name not in leaves}
    # Modules that import a circle without being in it are removed too.
    while roots := edges.keys() - {one for to in edges.values() for one in to}:
        edges = {name: to for name, to in edges.items() if name not in roots}
    assert {name: sorted(to & edges.keys()) for name, to in edges.items()} == {}


def dotted(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def test_coquis_learning_part_is_for_comparison_only():
    tests = [path.relative_to(ROOT) for path in (ROOT / "tests").rglob("*.py")]
    users = [
        path
        for path in (*MODULES, *tests)
        if re.search("transformers|trainer|TTS", (ROOT / path).read_text(encoding="utf-8"))
        and any(within(one.module, name) for one in imports(path) for name in PEERS_ONLY)
    ]
    assert [path for path in users if not {"peers", "benchmarks"} & set(path.parts[:2])] == []


def test_names_say_what_a_module_is():
    vague = [
        str(path)
        for path in MODULES
        for inner in [str(path.with_suffix("")).removeprefix("extras/common")]
        if VAGUE & set(re.split("[/_]", inner))
    ]
    assert vague == []


def test_a_module_says_what_it_is():
    assert [str(path) for path in MODULES if not ast.get_docstring(tree(path))] == []


def test_nothing_loads_what_could_run():
    """A pickle may run anything: torch.load always gets weights_only=True."""
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
    yield from (f"{path}:{one.line}: {one.module}" for one in imports(path) if one.module in runnable)


def test_the_environment_is_read_in_one_place():
    readers = [
        f"{path}: {', '.join(sorted(names))}"
        for path in MODULES
        if str(path) not in READS_ENVIRONMENT and (names := environment_names(path))
    ]
    assert readers == []


def environment_names(path: Path) -> set[str]:
    """A module's uses of os that read or change the environment."""
    asked = {"environ", "environb", "getenv", "putenv", "unsetenv"}
    of_os = {
        node.attr
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "os"
    }
    by_name = {one.module.removeprefix("os.") for one in imports(path) if within(one.module, "os")}
    return (of_os | by_name) & asked


def test_the_exceptions_are_still_needed():
    for name in READS_ENVIRONMENT:
        if not is_deleted(name):
            assert "environ" in (ROOT / name).read_text(encoding="utf-8"), name


def test_importing_a_package_does_no_work():
    """Nor does it import torch: `--help` and a mistyped setting answer immediately."""
    code = (
        "import sys; before = set(sys.modules); import machine, xtts, train, api;"
        "import benchmarks, demo_voice;"
        "import machine.settings.loading, train.settings, api.settings;"
        "import train.__main__, xtts.__main__;"
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    loaded = set(done.stdout.split())
    assert {"xtts", "train", "api"} <= loaded
    heavy = {"torch", "torchaudio", "TTS", "numpy", "transformers", "soundfile", "tensorboard"}
    assert loaded & heavy == set()


def test_every_command_that_is_told_can_be_run():
    """`python -m MODULE` in a sentence, a page, the Makefile or a Dockerfile can be run."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*.yml")]
    pages += [ROOT / one for one in ("Makefile", "Dockerfile", *MODULES)]
    ours = "|".join((*PACKAGES, "tests"))
    named = {
        (name, str(page.relative_to(ROOT)))
        for page in pages
        for name in re.findall(
            rf"(?:-m\"?,? \"?|\$\(RUN\) )((?:{ours})(?:\.[a-z_]+)*)", page.read_text(encoding="utf-8")
        )
    }
    assert len(named) > 30
    assert {one for one in named if not runs_as_program(one[0]) and not is_deleted(one[0])} == set()


def runs_as_program(module: str) -> bool:
    path = ROOT / module.replace(".", "/")
    if path.is_dir():
        return (path / "__main__.py").is_file()
    path = path.with_suffix(".py")
    return path.is_file() and 'if __name__ == "__main__":' in path.read_text(encoding="utf-8")


def test_a_module_only_defines():
    """At top level a module defines names; its calls there only make constants."""
    working = [
        f"{path}:{node.lineno}: {ast.unparse(node).splitlines()[0]}"
        for path in MODULES
        for node in tree(path).body
        if isinstance(node, ast.For | ast.While | ast.With | ast.Try)
        or (isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant))
    ]
    assert working == []


CORE = ("machine", "xtts", "train", "api")


def test_an_extra_imports_the_core_and_common_and_the_core_neither():
    """Module names in strings count as imports; only `machine.extras` locates extras."""
    packages = (*CORE, "extras")
    assert broken_arrows(path for path in MODULES if path.parts[0] in packages) == []


def test_a_test_of_an_extra_needs_no_other_and_one_of_the_core_neither_them_nor_common():
    """An extra is deleted with its tests, and the others pass. A test of two is marked `needs`."""
    tests = (path.relative_to(ROOT) for path in (ROOT / "tests").rglob("*.py"))
    assert broken_arrows(tests) == []


def broken_arrows(paths: Iterable[Path]) -> list[str]:
    """Each module, or test, that names an extra which it must not know."""
    import extras

    broken = []
    for path in paths:
        inner = path.parts[1:] if path.parts[0] == "tests" else path.parts
        in_extra = inner[0] == "extras" and len(inner) > 2
        others = extras_named(path) & {*extras.NAMES, "common"}
        others -= {inner[1], "common"} if in_extra else set()
        broken += [f"{path}: {name}" for name in sorted(others)]
    return broken


@pytest.mark.parametrize(
    ("place", "line", "broken"),
    [
        ("extras/cut/cues.py", "from extras.common.steps import Steps", []),
        ("extras/cut/cues.py", "from extras import common", []),
        ("extras/cut/cues.py", "from extras.books import plan", ["books"]),
        ("extras/common/steps.py", "from extras.common import answers", []),
        ("extras/common/steps.py", "import extras.ray.ray_steps", ["ray"]),
        ("machine/process.py", "from extras.common.steps import Steps", ["common"]),
        ("machine/process.py", "CHILD = 'extras.common.readings.nvml'", ["common"]),
        ("tests/extras/cut/test_cues.py", "from tests.extras.common import places", []),
        ("tests/extras/common/test_steps.py", "import extras.ray.ray_steps", ["ray"]),
        ("tests/machine/test_process.py", "from extras.common.steps import Steps", ["common"]),
    ],
)
def test_a_broken_arrow_is_found(place, line, broken, tmp_path, monkeypatch):
    (tmp_path / place).parent.mkdir(parents=True)
    (tmp_path / place).write_text(line, encoding="utf-8")
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    for function in (tree, imports):
        function.cache_clear()
    try:
        assert broken_arrows([Path(place)]) == [f"{place}: {name}" for name in broken]
    finally:
        for function in (tree, imports):
            function.cache_clear()


def extras_named(path: Path) -> set[str]:
    """The extras that a module imports, or whose modules or tests it names; `common` too."""
    strings = {
        node.value
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    named = {one.module for one in imports(path)} | {string for string in strings if " " not in string}
    found = (re.fullmatch(r"(?:tests\.)?extras\.([a-z]\w*)(?:\.\w+)*", name) for name in named)
    return {name[1] for name in found if name} - {"conftest"}


def test_every_extra_is_listed_and_every_name_has_a_folder():
    """A deleted folder may stay in the list."""
    import extras

    folders = {path.parent.name for path in (ROOT / "extras").glob("*/__init__.py")}
    assert "common" not in extras.NAMES
    assert folders - {"common"} <= set(extras.NAMES)
    assert len(set(extras.NAMES)) == len(extras.NAMES)


# Ports that one extra has, with the names that `machine.extras` says its module defines.
ONE_EXTRA_EACH = {
    "LANGUAGES": ("report_lacking",),
    "LAYOUTS": ("read",),
    "REHEARSAL": ("rehearsal_of",),
    "OPTIMIZER": ("AdamW8bit",),
    "RULES": ("rules_of",),
    "MARKUP": ("Reader",),
    "USAGE": ("MachineMetrics", "of_steps"),
    "GRAPHS": ("graphs_of",),
    "SPEECH_GRAPHS": ("rows_of", "record_windows"),
    "STEPS": ("steps_on",),
    "HELP": ("overview", "examples_of"),
    "WATERMARK": ("load", "mark"),
}


def test_what_the_extras_offer_can_be_imported():
    """Their entries name modules in strings, which no type checker follows."""
    from machine import extras

    for port in ("SERVICE", "LISTENER", "VOICES", "CLIPS", "SETTINGS"):
        assert extras.modules(port) is not None
    for port, names in ONE_EXTRA_EACH.items():
        assert len(extras.modules(port)) <= 1
        if module := extras.first(port):
            assert [name for name in names if not callable(getattr(module, name, None))] == []
    for program in ("train", "xtts"):
        for name in extras.verbs(program).values():
            assert callable(importlib.import_module(name).run)


# The lines that one must read to understand an entry point of the core, those of all modules that
# it reaches by imports, as counted on 2026-11-29. More than two in a hundred above is worth a look;
# how many modules a request, a clip and an epoch pass counts more (`tests.journeys`). 3,000 of
# those of `speak` are imported when they are asked for: XTTS-v2 by its name (settings and
# download), voice files, and takes with their judges.
DOORS = {
    "speak": (("xtts",), 18_013),
    "train": (("train.setup", "train.trainer"), 33_506),
    "serve": (("api.__main__",), 27_502),
    "all": (("xtts", "xtts.__main__", "train.__main__", "api.__main__"), 44_104),
}


@pytest.mark.filterwarnings("default::UserWarning")
@pytest.mark.parametrize("door", DOORS)
def test_a_door_that_grows_is_named(door):
    roots, counted = DOORS[door]
    lines = sum(
        len((ROOT / core_modules()[name]).read_text(encoding="utf-8").splitlines()) for name in reached(roots)
    )
    if lines > 1.02 * counted:
        warnings.warn(f"{door}: {lines} lines, {lines / counted - 1:.0%} more", stacklevel=1)


@cache
def core_modules() -> dict[str, Path]:
    return {dotted(path): path for path in MODULES if path.parts[0] in CORE}


def reached(roots: tuple[str, ...]) -> set[str]:
    """The core's modules that these import, directly or not, with their packages."""
    found, rest = set[str](), set(roots)
    while rest:
        found |= rest
        inner = {one for name in rest for one in needed(name)}
        rest = (inner | {name.rpartition(".")[0] for name in inner | rest}) & core_modules().keys()
        rest -= found
    return found


@cache
def needed(module: str) -> frozenset[str]:
    """The modules that a module imports at run time or names in strings."""
    path = core_modules()[module]
    typing = {
        id(inner)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    running = [node for node in ast.walk(tree(path)) if id(node) not in typing]
    names = {
        node.value
        for node in running
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value
    }
    for node in running:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names & core_modules().keys()) - {module}
