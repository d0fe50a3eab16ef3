"""The studio: recordings, datasets and trainings over HTTP, and the queue that trains them."""

VERBS = {"train": {"queue": "extras.studio.verb"}, "sotaque": {"studio": "extras.studio.__main__"}}
SETTINGS = "extras.studio.settings"
SERVICE = "extras.studio.http"
PAGE = "page"
