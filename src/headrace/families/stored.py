"""Reading answers that were written when their round was committed."""

from __future__ import annotations

import pyarrow as pa

from headrace.catalog.catalog import Registered
from headrace.errors import ServingError
from headrace.evaluation.arrow import ARROW_TIME, arrow_type
from headrace.families.contract import Archive
from headrace.runtime.answers import AnswerLog, change_name, column_names
from headrace.sql.query import Query
from headrace.values import TIMESTAMP, TINYINT


class StoredReader:
    """Every answer is final, if a family does not say that they change."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def log(self, registered: Registered) -> AnswerLog:
        return self._archive.answers_of(registered.query.source)

    def results(self, registered: Registered) -> pa.Table:
        return self._all(self.log(registered), registered)

    def present(self, registered: Registered) -> pa.Table:
        log = self.log(registered)
        if log.has_lost_since(registered.version):
            raise answers_gone(registered.query)
        return self._all(log, registered)

    def columns(self, registered: Registered) -> list[tuple[str, str]]:
        types = {o.name: str(o.expr.type) for o in registered.query.outputs}
        types |= {change_name(registered.query): str(TINYINT)}
        names = self.empty(registered).column_names
        return [(name, types.get(name, str(TIMESTAMP))) for name in names]

    def empty(self, registered: Registered) -> pa.Table:
        return empty_answer(registered.query, self.is_changing(registered))

    def is_changing(self, registered: Registered) -> bool:
        return False

    def _all(self, log: AnswerLog, registered: Registered) -> pa.Table:
        tables = [table for _, table in log.read_all(registered.id, registered.query)]
        return pa.concat_tables(tables).combine_chunks() if tables else self.empty(registered)


def empty_answer(query: Query, is_changing: bool = False) -> pa.Table:
    types = {o.name: arrow_type(o.expr.type) for o in query.outputs}
    found = {n: pa.array([], types.get(n, ARROW_TIME)) for n in column_names(query)}
    if is_changing:
        found[change_name(query)] = pa.array([], pa.int8())
    return pa.table(found)


def answers_gone(query: Query) -> ServingError:
    """All answers are asked for, and old ones have been let go of."""
    return ServingError(
        f"some answers of {query.name!r} may have been removed: its present answer would lack them",
        value="rounds before the oldest that is kept",
        code="SINCE_GONE",
        hint="results() has those that are kept; raise manifests_kept to keep more rounds",
    )
