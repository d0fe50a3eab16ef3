"""CSV for people and their spreadsheets: no text of a cell is taken for a formula.

After OWASP, "CSV Injection" (https://owasp.org/www-community/attacks/CSV_Injection): every cell is
quoted, and one that would begin a formula has an apostrophe before it. `read_csv` takes it off.
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence

# With the apostrophes before it, so that a text which has them already is read back as it was.
_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")


def csv_bytes(header: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """A table as a file. Texts are guarded; numbers stay what they are, negative ones too."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(header)
    writer.writerows([_guarded(cell) for cell in row] for row in rows)
    return table.getvalue().encode()


def read_csv(content: bytes) -> list[dict[str, str]]:
    """The rows of `csv_bytes` by the names of its header, texts as they were."""
    rows = csv.DictReader(io.StringIO(content.decode(), newline=""))
    return [{name: _plain(cell) for name, cell in row.items()} for row in rows]


def _guarded(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def _plain(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
