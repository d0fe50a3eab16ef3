"""docs/develop/clients.md lists every client whose requests are replayed, with its source.

    python -m tests.extras.dialects.test_client_docs

prints the rows of the two tables.
"""

from pathlib import Path

from tests.api.test_client_libraries import LIBRARIES
from tests.extras.dialects.test_clients import TABLE

PAGE = Path(__file__).parents[3] / "docs" / "develop" / "clients.md"


def client_rows() -> list[str]:
    """A table row for each client."""
    found = []
    for row in TABLE:
        repository, commit, file = row.source.split(" ")
        found.append(f"| {row.name} | {repository}, `{commit}`, `{file}` |")
    return found


def library_rows() -> list[str]:
    """A table row for each library."""
    return [f"| {', '.join(library.packages)} | {library.what} |" for library in LIBRARIES]


def test_the_page_has_a_row_for_each():
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert [row for row in (*client_rows(), *library_rows()) if row not in lines] == []


def test_there_are_fifteen_clients_and_more():
    repositories = {row.source.split(" ")[0] for row in TABLE}
    assert len(TABLE) >= 15 and len(repositories) >= 12


if __name__ == "__main__":
    print("\n".join(client_rows()))
    print()
    print("\n".join(library_rows()))
