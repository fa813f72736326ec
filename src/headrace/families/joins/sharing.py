"""What the joins and filters of a home share, for EXPLAIN and forecasts: kept up to date as they
come and go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.families.contract import Planned
from headrace.families.joins.cost import price_s
from headrace.families.joins.explain import (
    Asked,
    asked_of,
    event_s,
    explain_join_query,
    explain_joins,
)
from headrace.families.joins.figures import newest_figures
from headrace.families.joins.levels.level import sides_of
from headrace.families.joins.plan import Box, JoinShape, Share
from headrace.families.joins.reading.remaining_conditions import asked_of_spark
from headrace.runtime.statistics import Histories, Stats, rows_expected
from headrace.values import Relation


class JoinsPlan:
    """The shapes of all relations, and the ranges of their queries."""

    def __init__(self) -> None:
        self._queries: dict[int, Planned] = {}
        self._boxes: dict[JoinShape, dict[int, Sequence[Box]]] = {}
        self._asked: dict[JoinShape, Asked] = {}

    def update(self, come: Mapping[int, Planned], gone: Sequence[int]) -> None:
        for query_id in gone:
            self._forget(query_id, _share(self._queries.pop(query_id)).shape)
        for query_id, own in come.items():
            share = _share(own)
            self._boxes.setdefault(share.shape, {})[query_id] = share.boxes
            self._asked.pop(share.shape, None)
        self._queries.update(come)

    def catch_up(self) -> None:
        _ = self._coordinator

    def explain(self, relation: Relation, rounds: Histories) -> list[str]:
        return explain_joins(
            relation.name,
            self._coordinator,
            _kept(rounds),
            newest_figures(rounds.get(relation.name, ())),
        )

    def explain_query(self, query_id: int, rounds: Histories) -> list[str]:
        query, share = self._queries[query_id].registered.query, _share(self._queries[query_id])
        measured = newest_figures(rounds.get(query.source, ()))
        return [
            f"standing {'filters' if query.joined is None else 'joins'}",
            *explain_join_query(
                query.source,
                share,
                self._coordinator,
                _kept(rounds),
                measured,
                asked_of_spark(query, share.residue),
            ),
        ]

    def price(self, relation: Relation, rounds: Histories) -> dict[str, float]:
        history = rounds.get(relation.name, ())
        looked_s = event_s(relation.name, self._coordinator, _kept(rounds), newest_figures(history))
        return {} if looked_s is None else {"joins": price_s(rows_expected(history), looked_s)}

    def reads_rows(self, relation: Relation) -> bool:
        return any(sides_of(shape, relation.name) for shape in self._boxes)

    def counts_rows(self, relation: Relation) -> bool:
        return False

    def measured(self, stats: Stats) -> list[str]:
        """It stands beside what is measured."""
        return []

    @property
    def _coordinator(self) -> Mapping[JoinShape, Asked]:
        for shape, boxes in self._boxes.items():
            if shape not in self._asked:
                self._asked[shape] = asked_of(shape, boxes)
        return self._asked

    def _forget(self, query_id: int, shape: JoinShape) -> None:
        del self._boxes[shape][query_id]
        self._asked.pop(shape, None)
        if not self._boxes[shape]:
            del self._boxes[shape]


def _share(planned: Planned) -> Share:
    assert isinstance(planned.claim.asked, Share)
    return planned.claim.asked


def _kept(rounds: Histories) -> dict[str, int]:
    """Rows of each relation that may still be joined."""
    return {name: newest_figures(history).kept_rows for name, history in rounds.items()}
