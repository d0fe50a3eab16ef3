"""`python -m tests.api.runs.fake_train check|export …` answers immediately.

FAKE_TRAIN=refuse: it exits as for a dataset without clips or a run without a voice; =wait: it never
ends. FAKE_TRAIN_BYTES: the size of an exported model.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("verb")
    parser.add_argument("--to", type=Path)
    given, rest = parser.parse_known_args()
    if os.environ.get("FAKE_TRAIN") == "refuse":
        print("There is nothing in /some/where.", file=sys.stderr)
        return 2
    if given.verb == "check":
        print(
            json.dumps(
                {
                    "clips": 9,
                    "minutes": 0.5,
                    "validation_clips": 1,
                    "refused": [{"clip": "a", "seen": "0.1 s", "allowed": "0.5 to 11 s"}],
                    "suspects": [{"clip": "tape-0001", "severity": 2.5, "reasons": " ".join(rest)}],
                }
            )
        )
        return 0
    if given.to.suffix == ".sotaque":
        given.to.write_text(" ".join(rest), encoding="utf-8")
        return 0
    given.to.mkdir(parents=True)
    while os.environ.get("FAKE_TRAIN") == "wait":
        time.sleep(0.1)
    (given.to / "model.pth").write_bytes(bytes(int(os.environ.get("FAKE_TRAIN_BYTES", 3 << 20))))
    about = {"licence": "CPML", "epoch": 2, "made_at": "now", "base": {"name": "demo"}}
    (given.to / "bundle.json").write_text(json.dumps(about))
    return 0


if __name__ == "__main__":
    sys.exit(main())
