"""Reading answers that were written when their round was committed."""

from __future__ import annotations

import pyarrow as pa

from headrace.catalog.catalog import Registered
from headrace.evaluation.arrow import ARROW_TIME, arrow_type
from headrace.families.contract import Archive
from headrace.runtime.answers import AnswerLog, column_names
from headrace.sql.query import Query
from headrace.values import TIMESTAMP


class StoredReader:
    """Every answer is final."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def log(self, registered: Registered) -> AnswerLog:
        return self._archive.answers_of(registered.query.source)

    def results(self, registered: Registered) -> pa.Table:
        tables = [
            table for _, table in self.log(registered).read_all(registered.id, registered.query)
        ]
        if self.is_changing(registered):
            tables = tables[-1:]
        return pa.concat_tables(tables).combine_chunks() if tables else self.empty(registered)

    def columns(self, registered: Registered) -> list[tuple[str, str]]:
        types = {o.name: str(o.expr.type) for o in registered.query.outputs}
        return [(name, types.get(name, str(TIMESTAMP))) for name in column_names(registered.query)]

    def empty(self, registered: Registered) -> pa.Table:
        return empty_answer(registered.query)

    def is_changing(self, registered: Registered) -> bool:
        return False


def empty_answer(query: Query) -> pa.Table:
    types = {o.name: arrow_type(o.expr.type) for o in query.outputs}
    return pa.table({n: pa.array([], types.get(n, ARROW_TIME)) for n in column_names(query)})
