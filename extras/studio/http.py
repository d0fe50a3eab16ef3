"""What the studio adds to the service: `api.parts`."""

from extras.studio.part import Studio as Part
from extras.studio.routes import dataset_routes, take_routes, training_routes

ROUTERS = (training_routes.router, dataset_routes.router, take_routes.router)
__all__ = ["ROUTERS", "Part"]
