"""When a table is written anew.

Each change of a row leaves two more in the table's files: the row that goes and the one that comes.
Whoever looks the table up has to open all of its files.  To write the rows that are left anew costs
as much as there are; so it is done when that is little beside what the files cost.
"""

from __future__ import annotations

from headrace.relations.rows import Rows

SPARE_ROWS = 100_000
"""So many rows that went, or that say so, may stay."""
FILES_MAX = 64


def is_worn(rows: Rows) -> bool:
    """Whether a table's files hold so much that went, or are so many, that it is written anew with
    the next round."""
    files, spare = len(rows.files), sum(file.rows for file in rows.files) - rows.size
    if spare > rows.size + SPARE_ROWS:
        return True
    return files > FILES_MAX and (8 * spare > rows.size or files > 16 * FILES_MAX)
