"""`python -m api`: starts the service on API_HOST:API_PORT."""

import gc
import importlib.util
import logging
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from api.settings import ApiSettings, load
from machine import commands, extras
from machine.errors import SotaqueError
from xtts.voices.published_voice import provide

if TYPE_CHECKING:
    from api.engine.child import ChildOptions
    from api.engine.queue import EngineLimits

log = logging.getLogger("api")
# The optional dependency `api` of pyproject.toml.
_NEEDED = ("fastapi", "prometheus_client", "python_multipart", "uvicorn")


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until stopped, and returns the exit code; prints the message of a SotaqueError."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    try:
        settings, report = load(sys.argv[1:] if argv is None else argv)
        for note in report.notes:
            log.info(note)
        log.info(report.changed_settings())
        return serve(settings)
    except SotaqueError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def serve(
    settings: ApiSettings, options: "ChildOptions | None" = None, limits: "EngineLimits | None" = None
) -> int:
    """Runs uvicorn in this thread. The speaking process ends with it.

    options, limits: replace the defaults in tests.

    Raises:
        SotaqueError: a port is in use, or a package is missing.
    """
    if missing := [name for name in _NEEDED if importlib.util.find_spec(name) is None]:
        raise SotaqueError(
            f"The service needs {' and '.join(missing)}, which this installation lacks. Install "
            f"with: {commands.install_extra('api')}"
        )
    settings = replace(settings, voice=settings.voice and provide(settings.voice, settings))
    from api.http.listening_socket import bind_port

    sockets = bind_port(settings.api_host, settings.api_port)
    listeners = [
        (module, bound) for module in extras.modules("LISTENER") if (bound := module.sockets_of(settings))
    ]
    # Imported after the bind: these take a second or more, and a port in use is reported at once.
    from api.app import build
    from api.http.server import server_of

    server = server_of(build(settings, options, limits), listeners=listeners)
    log.info("Listens on http://%s:%d", settings.api_host, settings.api_port)
    for module, _ in listeners:
        log.info("Speaks %s", module.address(settings))
    # Objects that exist now live as long as the process. Freezing them keeps a full collection
    # from visiting them, which blocked the event loop for 35 ms.
    gc.collect()
    gc.freeze()
    try:
        server.run(sockets=sockets)
    except KeyboardInterrupt:  # uvicorn raises it again after all requests have finished
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
