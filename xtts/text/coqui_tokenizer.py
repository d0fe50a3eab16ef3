"""Coqui's tokenizer and text normalizer, importable without torch.

Coqui's module uses torch in one `isinstance`, and its parent packages import all of Coqui: 0.4 GB
for a few regular expressions and `tokenizers`. So if torch is not loaded, the import skips the
packages' `__init__` files and puts an empty module in place of `torch`. This works with coqui-tts
0.28; `tests/xtts/text/test_coqui_tokenizer.py` fails if another version needs more.
"""

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

_MODULE = "TTS.tts.layers.xtts.tokenizer"
_PACKAGES = (
    "TTS", "TTS.tts", "TTS.tts.layers", "TTS.tts.layers.xtts", "TTS.tts.utils",
    "TTS.tts.utils.text",
)  # fmt: skip
# Bounded, because callers choose the numbers.
_KEPT_NUMBERS = 4_096


@cache
def tokenizer_class() -> Any:
    """Coqui's `VoiceBpeTokenizer`. Raises ImportError without coqui-tts."""
    with contextlib.nullcontext() if "torch" in sys.modules else _without_packages():
        module = importlib.import_module(_MODULE)
    # Cached, because a number takes 0.2 ms and a text may repeat one two thousand times. Typed,
    # because 2 and 2.0 are read differently.
    module.num2words = lru_cache(_KEPT_NUMBERS, typed=True)(module.num2words)  # type: ignore[attr-defined]
    return module.VoiceBpeTokenizer


@contextlib.contextmanager
def _without_packages() -> Iterator[None]:
    """Stands in for torch and Coqui's packages. At the end, removes Coqui's modules from
    `sys.modules`, because they are incomplete."""
    spec = importlib.util.find_spec("TTS")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("coqui-tts is not installed")
    root = Path(spec.submodule_search_locations[0]).parent
    stand_in = ModuleType("torch")
    stand_in.Tensor = type("Tensor", (), {})  # type: ignore[attr-defined]
    sys.modules["torch"] = stand_in
    for name in _PACKAGES:
        package = ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")))]
        sys.modules[name] = package
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] in ("TTS", "torch")]:
            del sys.modules[name]
