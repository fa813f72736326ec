"""Shared windows, as the engine sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.catalog.catalog import Registered
from headrace.config import Config
from headrace.families.contract import (
    Archive,
    Claim,
    Floats,
    Planned,
    Reader,
    Refusal,
    RelationOf,
    Workplace,
)
from headrace.families.stored import StoredReader
from headrace.families.window_limit import check_panes
from headrace.families.windows.figures import NAME, WindowsFigures
from headrace.runtime.statistics import Stats
from headrace.sql.query import Query
from headrace.values import Relation

if TYPE_CHECKING:
    from headrace.families.windows.job import WindowsJob
    from headrace.families.windows.sharing import WindowsPlan


class Windows:
    name = NAME
    figures = WindowsFigures
    stages = ("spark", "roll", "answer")
    counts_answers = True
    uses_workers = False

    def claims(self, query: Query, relation_of: RelationOf) -> Claim | Refusal:
        if query.window is None:
            return Refusal(
                "it has no window"
                if query.grouped
                else "it is a filter or projection: it has no window"
            )
        # compiled kernels: not for who only opens an engine
        from headrace.families.windows.plan import (
            share,
        )

        asked = share(query, relation_of(query.source))
        return asked if isinstance(asked, Refusal) else Claim(asked)

    def check(self, query: Query, claim: Claim, config: Config) -> str:
        from headrace.families.windows.sketches.weighing import check_registers

        check_panes(query, config)
        check_registers(query, config)
        return ""

    def plan(self) -> WindowsPlan:
        from headrace.families.windows.sharing import WindowsPlan

        return WindowsPlan()

    def shares(
        self,
        queries: Mapping[int, Planned],
        relation: Relation,
        rounds: Sequence[Stats],
        counts: Mapping[int, int],
    ) -> Mapping[str, Floats]:
        from headrace.families.windows.sharing import shares_of

        return shares_of(queries, relation, rounds, counts)

    def rehearse(self, queries: Sequence[Registered], relation: Relation, config: Config) -> None:
        from headrace.families.windows.rehearsal import rehearse

        rehearse(queries, relation, config)

    def job(self, workplace: Workplace) -> WindowsJob:
        from headrace.families.windows.job import WindowsJob

        return WindowsJob()

    def reader(self, archive: Archive) -> Reader:
        return StoredReader(archive)
