"""When a table is written anew: what its files hold in vain, and how many there are."""

from __future__ import annotations

from typing import cast

import pytest

from headrace.relations.rounds import KeptRounds
from headrace.relations.row_files import RowFile
from headrace.relations.rows import Rows
from headrace.relations.wear import FILES_MAX, SPARE_ROWS, is_worn
from headrace.runtime.ledger import Ledger
from headrace.sql.schema import parse_schema
from headrace.values import Relation

TABLE = Relation("t", "json:t", parse_schema("k STRING, n INT"), key=("k",))
MANY = 1_000_000


def table(there: int, spare: int, files: int) -> Rows:
    """A table of so many rows, with as many in vain beside them, in so many files."""
    rows, growths = _parts(there + spare, files), _parts(there, files)
    made = [
        RowFile(f"{i}", i, 0, own, growth, None, 0, 0)
        for i, (own, growth) in enumerate(zip(rows, growths, strict=True))
    ]
    return Rows(TABLE, cast(KeptRounds, None), cast(Ledger, None), made)


def _parts(total: int, parts: int) -> list[int]:
    return [total // parts + (i < total % parts) for i in range(parts)]


@pytest.mark.parametrize(
    ("there", "spare", "files", "worn"),
    [
        (MANY, 0, 1, False),
        (MANY, MANY + SPARE_ROWS, 2, False),
        (MANY, MANY + SPARE_ROWS + 1, 2, True),
        (0, SPARE_ROWS, 2, False),
        (MANY, MANY // 8 + 1, FILES_MAX, False),  # not yet so many files
        (MANY, MANY // 8, FILES_MAX + 1, False),  # to write the rows anew would cost more
        (MANY, MANY // 8 + 1, FILES_MAX + 1, True),
        (MANY, 0, 16 * FILES_MAX, False),
        (MANY, 0, 16 * FILES_MAX + 1, True),  # whatever it costs: each look opens them all
    ],
)
def test_a_table_is_written_anew_where_that_pays(
    there: int, spare: int, files: int, worn: bool
) -> None:
    assert is_worn(table(there, spare, files)) == worn
