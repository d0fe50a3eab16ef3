"""The settings of books."""

from pathlib import Path

from pydantic.dataclasses import dataclass as settings_class

from api.settings import ApiSettings
from machine.settings.types import CONFIG, Count, Folder


@settings_class(frozen=True, kw_only=True, config=CONFIG)
class BooksSettings(ApiSettings):
    """Where uploaded books are, and how large they may be."""

    books_dir: Folder = Path("books")
    """The folder of uploaded books and their audio. Replicas share it."""
    books_max_gb: Count = 20
    """The maximum size of all books together in GB, including their audio. The service also leaves
    1 GB of the disk free."""


SETTINGS = (BooksSettings,)
