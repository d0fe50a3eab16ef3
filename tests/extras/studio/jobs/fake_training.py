"""`python -m tests.extras.studio.jobs.fake_training check|run`: trains at once, without a model.

Each epoch takes FAKE_EPOCH seconds and writes a checkpoint, from which the next start resumes.
FAKE_TRAINING changes this: refuse (the check fails), deadly (killed before each epoch), loud (a
line of 64 kB for each epoch). OUTPUT_DIR/../../calls.txt lists the calls in order.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("verb")
    parser.add_argument("--output-dir", type=Path, required=True)
    parser.add_argument("--num-epochs", type=int, default=2)
    given, _rest = parser.parse_known_args()
    how = os.environ.get("FAKE_TRAINING", "")
    calls = given.output_dir.parents[1] / "calls.txt"
    calls.parent.mkdir(parents=True, exist_ok=True)
    with calls.open("a") as file:
        file.write(f"{given.verb} {given.output_dir.name} {os.getpid()} {' '.join(sys.argv)}\n")
    if given.verb == "check":
        if how == "refuse":
            print("metadata.csv has no clip that can be read.", file=sys.stderr)
        return 2 if how == "refuse" else 0
    signal.signal(signal.SIGTERM, stop)
    checkpoints = given.output_dir / "checkpoints"
    checkpoints.mkdir(parents=True, exist_ok=True)
    for epoch in range(1, given.num_epochs + 1):
        path = checkpoints / f"checkpoint_epoch_{epoch}.pt"
        if path.exists():
            continue
        if how == "deadly":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(float(os.environ.get("FAKE_EPOCH", "0")))
        print(f"epoch {epoch}/{given.num_epochs}" + " loud" * (16_000 * (how == "loud")), flush=True)
        part = path.with_suffix(".part")
        part.write_text(f"epoch {epoch}")
        part.rename(path)
    return 0


def stop(_signal: int, _frame: FrameType | None) -> None:
    print("Stopped; the state is saved.", flush=True)
    sys.exit(143)


if __name__ == "__main__":
    sys.exit(main())
