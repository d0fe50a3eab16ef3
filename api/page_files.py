"""The page as a browser gets it: in few round trips, with each file compressed once."""

import gzip
import os
import posixpath
import re
from functools import cache
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from api.parts import PAGE, page_folders

# In this order, with those of the extras before the last two.
STYLE_NAMES = (
    *("colours", "style", "controls", "epochs", "desk", "curves", "speak", "takes", "player", "runs"),
    *("views", "touch"),
)
_SLOT = re.compile(r"^ *<!-- slot: ([\w-]+) -->\n", re.MULTILINE)
_IMPORT = re.compile(r'^import .* from "(\..*)";$', re.MULTILINE)
_MODULE_LINK = '  <link rel="modulepreload" href="page/{0}">\n'
_PART_LINK = '  <link rel="modulepreload" href="page/{0}/part.js" data-part="{0}">\n'


@cache
def page(extra_names: frozenset[str] | None = None) -> str:
    """The page with the parts of the extras. extra_names: only these, in tests."""
    folders = {
        name: folder for name, folder in page_folders().items() if extra_names is None or name in extra_names
    }
    slots = {"modules": "".join(_PART_LINK.format(name) for name in folders)}
    slots["modules"] += "".join(_MODULE_LINK.format(name) for name in _modules(folders))
    for folder in folders.values():
        pieces = _SLOT.split((folder / "part.html").read_text(encoding="utf-8"))[1:]
        for slot, piece in zip(pieces[::2], pieces[1::2], strict=True):
            slots[slot] = slots.get(slot, "") + piece
    text = (PAGE / "index.html").read_text(encoding="utf-8")
    return _SLOT.sub(lambda match: slots.get(match[1], ""), text)


@cache
def styles() -> str:
    """The styles of the page and of the extras' parts, as one file."""
    core = [PAGE / f"{name}.css" for name in STYLE_NAMES]
    parts = [folder / "part.css" for folder in page_folders().values()]
    return "".join(path.read_text(encoding="utf-8") for path in (*core[:-2], *parts, *core[-2:]))


def _modules(folders: dict[str, Path]) -> list[str]:
    """Every module that page.js and the parts import: a browser that knows them asks for all at
    once, not for each when another one names it."""
    entries = ["page.js", *(f"{name}/part.js" for name in folders)]
    modules = [*entries]
    for module in modules:
        extra, _, file = module.rpartition("/")
        text = (folders.get(extra, PAGE) / file).read_text(encoding="utf-8")
        imported = (posixpath.normpath(posixpath.join(extra, name)) for name in _IMPORT.findall(text))
        modules += [name for name in imported if name not in modules]
    return modules[len(entries) :]


class PageFiles(StaticFiles):
    """A folder of text files."""

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        """As the base class, which would read the file for each answer."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["Vary"] = "Accept-Encoding"
        if response.status_code != status_code or "gzip" not in Headers(scope=scope).get(
            "Accept-Encoding", ""
        ):
            return response
        dropped = {"content-length", "accept-ranges"}
        headers = {name: value for name, value in response.headers.items() if name not in dropped}
        body = _compressed_file(Path(full_path), stat_result.st_mtime_ns)
        return Response(body, status_code, {**headers, "Content-Encoding": "gzip"})


@cache
def _compressed_file(path: Path, _mtime_ns: int) -> bytes:
    return gzip.compress(path.read_bytes(), mtime=0)


@cache
def compressed(text: str) -> bytes:
    """A text of the page, compressed with gzip."""
    return gzip.compress(text.encode(), mtime=0)
