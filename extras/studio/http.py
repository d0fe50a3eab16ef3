"""What the studio adds to the service: `api.parts`."""

from extras.studio.part import Studio as Part
from extras.studio.routes import datasets, takes, trainings

ROUTERS = (trainings.router, datasets.router, takes.router)
__all__ = ["ROUTERS", "Part"]
