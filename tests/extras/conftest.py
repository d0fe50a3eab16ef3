"""What tests of the core share, for those of the extras too: a service, and checks of a dataset."""

from tests.api.conftest import real, service
from tests.train.conftest import _everything_is_heard, check

__all__ = ["_everything_is_heard", "check", "real", "service"]
