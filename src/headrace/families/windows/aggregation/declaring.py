"""Edges of cells as variables of the Spark session: what is declared is known even if the next one
fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.families.windows.cells import Edges, declare_sql, drop_sql
from headrace.sql.tree import Expr

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class DeclaredEdges:
    """Of one stream; several aggregates may ask for the same edges."""

    def __init__(self) -> None:
        self._declared: list[tuple[Expr, tuple[int, ...]]] = []
        self._asked: dict[str, Edges] = {}

    def declare(self, session: SparkSession, who: str, edges: Edges) -> None:
        """These are the edges one aggregate asks for now."""
        self._asked[who] = edges
        wanted = list(dict.fromkeys(own for asked in self._asked.values() for own in asked))
        for own in [own for own in self._declared if own not in wanted]:
            session.sql(drop_sql(*own))
            self._declared.remove(own)
        for own in [own for own in wanted if own not in self._declared]:
            session.sql(declare_sql(*own))
            self._declared.append(own)
