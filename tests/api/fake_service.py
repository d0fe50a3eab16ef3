"""A service with a fake child in a process of its own: tells its address, serves until stdin ends,
tells its largest size.

    python -m tests.api.fake_service FOLDER SLOTS QUEUE DEADLINE
"""

import json
import resource
import sys
from dataclasses import replace
from pathlib import Path

from api.__main__ import set_apart
from tests.api.conftest import QUICK, running, settings_in


def main() -> None:
    folder, slots, queue, deadline = sys.argv[1:]
    limits = replace(QUICK, slots=int(slots), queue=int(queue), deadline=float(deadline))
    with running(settings_in(Path(folder)), limits=limits) as service:
        service.wait_ready()
        set_apart()
        print(service.address, flush=True)
        for _ in sys.stdin:
            size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            told = {"size": size, "left": len(service.parts.engine.spoken)}
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
