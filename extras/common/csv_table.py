"""CSV files for spreadsheets, which never read the text of a cell as a formula.

Following OWASP, "CSV Injection" (https://owasp.org/www-community/attacks/CSV_Injection), every cell
is quoted, and a cell that would start a formula gets an apostrophe, which `read_csv` removes.
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence

# Including leading apostrophes, so that a text that already has one is read back unchanged.
_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")


def csv_bytes(header: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """A table as the content of a CSV file. Only texts are escaped, not negative numbers."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(header)
    writer.writerows([_guard(cell) for cell in row] for row in rows)
    return table.getvalue().encode()


def read_csv(content: bytes) -> list[dict[str, str]]:
    """The rows of a file by `csv_bytes`, column name -> original text."""
    rows = csv.DictReader(io.StringIO(content.decode(), newline=""))
    return [{name: _plain(cell) for name, cell in row.items()} for row in rows]


def _guard(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def _plain(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
