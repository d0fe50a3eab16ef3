"""`python -m benchmarks steady`: what is resident while 200 sentences of mixed length are spoken,
with torch and with ONNX Runtime, as they come and under LOW_MEMORY: does it grow?

Each row is a process of its own. The embedded voice, a minute or two a row on two quiet cores;
`--full`: XTTS-v2's size with random weights, which are kept with --folder.
"""

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import bases, onnx_voice
from benchmarks.steady_child import ROWS
from xtts.onnx.folder import VOICE
from xtts.voices.base_models import DEMO


def main(argv: Sequence[str]) -> int:
    """Prints the table, or JSON."""
    arguments = _parser().parse_args(argv)
    names = [name for name in ROWS if name in (arguments.rows or ",".join(ROWS)).split(",")]
    with tempfile.TemporaryDirectory() as name:
        folder = arguments.folder or Path(name)
        base = bases.write(folder / "base") if arguments.full else DEMO
        voice = voice_of(base, folder / f"{base.name}-onnx")
        found = {
            row: told(started(row, base, voice, arguments.sentences, arguments.threads))
            for row in names
        }
    print(json.dumps(found, indent=1) if arguments.json else _table(found))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks steady", description=__doc__)
    parser.add_argument("--full", action="store_true", help="XTTS-v2's size")
    parser.add_argument("--rows", help=f"by commas, of: {', '.join(ROWS)}")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where base model and export are kept")
    parser.add_argument("--json", action="store_true")
    return parser


def voice_of(base: Path, to: Path) -> Path:
    """The latents of who speaks, in an ONNX export of the base that is made where it is missing:
    of its own recording, else drawn."""
    stored = onnx_voice.folder_of(base, to) / VOICE
    if not stored.is_file():
        import torch

        from xtts.inference import latents_file
        from xtts.inference.voice import Voice
        from xtts.model.config import ModelConfig

        drawn = onnx_voice.whose(ModelConfig.read(base).gpt.width)
        whose = Voice(torch.from_numpy(drawn.latents), torch.from_numpy(drawn.speaker))
        latents_file.write(stored, whose)
    return stored


def started(row: str, base: Path, voice: Path, sentences: int, threads: int) -> dict[str, Any]:
    """One process. Raises RuntimeError when it fails."""
    words = [sys.executable, "-m", "benchmarks.steady_child", row, str(base), str(voice)]
    done = subprocess.run(
        [*words, str(sentences), str(threads)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        raise RuntimeError(f"{row}: {' '.join(words)} ended with {done.returncode}: {last}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def told(found: dict[str, Any]) -> dict[str, Any]:
    """The most that was resident in each quarter, in MB; grown: the last against the second, when
    every length has come once."""
    seen = found["resident_mb"]
    ends = [len(seen) * part // 4 for part in range(5)]
    quarters = [max(seen[a:b]) for a, b in itertools.pairwise(ends)]
    times = {name: found[name] for name in ("audio_seconds", "seconds")}
    return {"quarters_mb": quarters, "grown_mb": round(quarters[3] - quarters[1], 1), **times}


def _table(found: dict[str, dict[str, Any]]) -> str:
    width = max(map(len, found))
    lines = [f"{'':{width}} {'most MB in each quarter':>31} {'grown':>8} {'sound':>8} {'took':>8}"]
    lines += [
        f"{name:{width}} {' '.join(f'{part:7.0f}' for part in row['quarters_mb'])} "
        f"{row['grown_mb']:5.1f} MB {row['audio_seconds']:6.0f} s {row['seconds']:6.0f} s"
        for name, row in found.items()
    ]
    return "\n".join(lines)
