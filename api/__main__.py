"""`python -m api`: serves the newest voice on API_HOST:API_PORT."""

import gc
import logging
import sys
from collections.abc import Sequence

from api.settings import ApiSettings, load
from xtts.errors import SotaqueError

log = logging.getLogger("api")
# Beyond this a connection is refused at once: each costs memory, whatever it asks.
_MOST_CONNECTIONS = 1_000
_GRACE_SECONDS = 20
# Longer than a proxy keeps one: whoever closes first must not be the one that is about to be asked.
_KEEP_ALIVE_SECONDS = 75


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until it is told to stop; prints the sentence of a fault and returns its code."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    try:
        settings, report = load(sys.argv[1:] if argv is None else argv)
        for note in report.notes:
            log.info(note)
        log.info(report.table())
        return serve(settings)
    except SotaqueError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def serve(settings: ApiSettings) -> int:
    """Runs uvicorn in this thread: the speaking child ends with it. Raises PortTaken."""
    import uvicorn

    from api.app import build
    from api.listening import listening

    sockets = listening(settings.api_host, settings.api_port)
    config = uvicorn.Config(
        build(settings), log_level="warning", access_log=False,
        limit_concurrency=_MOST_CONNECTIONS, server_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS, timeout_keep_alive=_KEEP_ALIVE_SECONDS, ws="none",
        h11_max_incomplete_event_size=16 << 10,
    )  # fmt: skip
    log.info("Listens on http://%s:%d", settings.api_host, settings.api_port)
    set_apart()
    try:
        uvicorn.Server(config).run(sockets=sockets)
    except KeyboardInterrupt:  # uvicorn raises it again when everybody has finished
        return 130
    return 0


def set_apart() -> None:
    """Takes what stands at the start, and stays, out of the garbage collector's rounds: each full
    one went through it all and held up the event loop for 35 ms."""
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    sys.exit(main())
