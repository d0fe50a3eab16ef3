"""`python -m api`: starts the service on API_HOST:API_PORT."""

import gc
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from api.settings import ApiSettings, load
from machine.errors import SotaqueError

if TYPE_CHECKING:
    from api.engine.child import ChildOptions
    from api.engine.queue import EngineLimits

log = logging.getLogger("api")


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until it is stopped; prints the sentence of a fault and returns its code."""
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


def serve(
    settings: ApiSettings, how: "ChildOptions | None" = None, limits: "EngineLimits | None" = None
) -> int:
    """Runs uvicorn in this thread: the speaking child ends with it. Raises SotaqueError where a
    port is taken.

    how, limits: others in tests.
    """
    from api.http.listening_socket import listening

    sockets = listening(settings.api_host, settings.api_port)
    wyoming = []
    if settings.wyoming_port is not None:
        wyoming = listening(settings.api_host, settings.wyoming_port, "WYOMING_PORT")
    # Behind it: they take a second or more, and a taken port is reported at once.
    from api.app import build
    from api.http.server import server_of

    server = server_of(build(settings, how, limits), wyoming=wyoming)
    log.info("Listens on http://%s:%d", settings.api_host, settings.api_port)
    if wyoming:
        log.info("Speaks Wyoming on tcp://%s:%d", settings.api_host, settings.wyoming_port)
    # What exists at the start, and stays, is taken out of the garbage collector's rounds: each full
    # one went through it all and held up the event loop for 35 ms.
    gc.collect()
    gc.freeze()
    try:
        server.run(sockets=sockets)
    except KeyboardInterrupt:  # uvicorn raises it again when all requests have finished
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
