"""DiskSpace: how much disk the datasets or the books use, and how much is left."""

from pydantic import BaseModel


class DiskSpace(BaseModel):
    """Disk space in bytes. used: by all datasets, or by all books; most: the limit of
    DATASETS_MAX_GB or BOOKS_MAX_GB; free: on the disk."""

    used: int
    most: int
    free: int
