"""Facts: what follows from the keys of a group alone, asked of Spark once for each key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.evaluation.arrow import arrow_type
from headrace.families.windows.aggregation.aggregate import (
    fact_sql,
    key_name,
)
from headrace.families.windows.aggregation.suspects import (
    users_of,
)
from headrace.families.windows.plan import Share
from headrace.runtime.collecting import to_arrow
from headrace.runtime.faults import is_nobodys, why_failing
from headrace.runtime.halving import failing_alone, failing_together
from headrace.sql.tree import Column, Expr, columns_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT = "at"


class Facts:
    """Facts of keys, by Spark: a small job, run when there are keys it has not been asked of.

    A fact that Spark does not evaluate is null here, and the queries that ask for it are not
    answered."""

    def __init__(self, session: SparkSession, tries_max: int) -> None:
        self._session = session
        self._tries_max = tries_max
        self.failed: dict[Expr, str] = {}

    def faults(self, shares: Mapping[int, Share]) -> dict[int, str]:
        """Why queries fail that use a fact which could not be evaluated, by query id."""
        return {
            query_id: reason
            for fact, reason in self.failed.items()
            for query_id in users_of(fact, shares)
        }

    def evaluate(
        self, keys: Sequence[Expr], values: Sequence[pa.Array], facts: Sequence[Expr]
    ) -> list[pa.Array]:
        asked = [fact for fact in facts if fact not in self.failed]
        try:
            found = self._ask(keys, values, asked)
        except Exception as error:
            if is_nobodys(error):
                raise
            self._ask(keys, values, ())
            reason = why_failing(lambda: self._ask(keys, values, asked))
            if reason is not None:  # otherwise it was not theirs, and has passed
                self.failed |= self._find(keys, values, asked, reason)
            return self.evaluate(keys, values, facts)
        rows = len(values[0]) if values else 1
        known = dict(zip(asked, found, strict=True))
        return [known[f] if f in known else pa.nulls(rows, arrow_type(f.type)) for f in facts]

    def _find(
        self, keys: Sequence[Expr], values: Sequence[pa.Array], facts: Sequence[Expr], reason: str
    ) -> dict[Expr, str]:
        def failing(some: Sequence[Expr]) -> str | None:
            return why_failing(lambda: self._ask(keys, values, some))

        return failing_alone(facts, reason, failing, self._tries_max) or failing_together(
            facts, reason, failing, self._tries_max
        )

    def _ask(
        self, keys: Sequence[Expr], values: Sequence[pa.Array], facts: Sequence[Expr]
    ) -> list[pa.Array]:
        used = {
            i: k
            for i, k in enumerate(keys)
            if isinstance(k, Column) and k.name in columns_of(*facts)
        }
        rows = len(values[0]) if values else 1
        table = pa.table(
            {AT: pa.array(range(rows), pa.int64()), **{key_name(i): values[i] for i in used}}
        )
        ddl = ", ".join([f"{AT} BIGINT", *(f"{key_name(i)} {k.type}" for i, k in used.items())])
        names = {k.name: key_name(i) for i, k in used.items()}
        texts = [f"{fact_sql(fact, names)} AS f{i}" for i, fact in enumerate(facts)]
        found = to_arrow(self._session.createDataFrame(table, ddl).selectExpr(AT, *texts)).sort_by(
            AT
        )
        return [found.column(f"f{i}").combine_chunks() for i in range(len(facts))]
