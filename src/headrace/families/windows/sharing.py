"""What the window queries of a home share, for EXPLAIN and forecasts: kept up to date as they come
and go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.families.contract import Floats, Planned
from headrace.families.windows.costs.attribution import Users, split
from headrace.families.windows.costs.cost import priced
from headrace.families.windows.costs.flow import (
    ASSUMED,
    flow_of,
    flow_of_round,
    is_united,
    is_united_next,
)
from headrace.families.windows.costs.workload import (
    Quantities,
    RingWorks,
    Workload,
    quantities_of,
    workload_of,
)
from headrace.families.windows.cuts import Cuts, plan_cuts
from headrace.families.windows.explain import (
    explain_shards,
    explain_window_query,
    explain_windows,
)
from headrace.families.windows.figures import (
    Elsewhere,
    ShardsFigures,
    WindowsFigures,
    figures_of,
    measured_line,
)
from headrace.families.windows.placement import BestPlacement
from headrace.families.windows.plan import RingAssignment, Share, in_order
from headrace.families.windows.shards.choice import is_sharded
from headrace.runtime.statistics import Histories, Stats
from headrace.values import Relation


@dataclass(slots=True)
class StreamWindows:
    """The shared windows of one relation, or those of them that are in shards."""

    in_shards: bool = False
    best: BestPlacement = field(default_factory=BestPlacement)
    _works: RingWorks = field(default_factory=RingWorks)
    _placed: tuple[Sequence[Elsewhere], RingAssignment] | None = None
    _made: dict[bool, tuple[Cuts, Workload]] = field(default_factory=dict)

    def update(self, come: Mapping[int, Share], gone: Sequence[int]) -> None:
        """Queries come and go."""
        self._placed = None
        self._made.clear()
        self.best.update(come, gone)

    def assignment(self, rounds: Sequence[Stats]) -> RingAssignment:
        """Where queries sit, by what the newest round has noted; those that no round had yet, where
        they would sit best."""
        told = figures_of(rounds[-1]) if rounds else WindowsFigures()
        own = told.shards if self.in_shards else told
        exceptions = () if own is None else own.exceptions
        if self._placed is None or self._placed[0] != exceptions:
            self._made.clear()
            self._placed = exceptions, self.best.but(exceptions)
        return self._placed[1]

    def made(self, rounds: Sequence[Stats]) -> tuple[Cuts, Workload]:
        """What Spark aggregates, and all the plan makes the engine do in the next round."""
        assignment, united = self.assignment(rounds), self._is_united(rounds)
        if united not in self._made:
            rings = in_order(assignment)
            cuts = plan_cuts(rings, united, has_facts=not self.in_shards)
            self._made[united] = cuts, workload_of(self._works.of(rings), cuts)
        return self._made[united]

    def _is_united(self, rounds: Sequence[Stats]) -> bool:
        shards = _shards(rounds)
        return shards.next_united if self.in_shards and shards else is_united_next(rounds)

    def sides(self, shards: ShardsFigures) -> tuple[StreamWindows, StreamWindows]:
        """What the driver answers, and what shards do.  A query that is handed over is shown where
        it will be."""
        mine, theirs = StreamWindows(), StreamWindows(in_shards=True)
        sharded = {i: s for i, s in self.best.asked.items() if is_sharded(s, shards.keys)}
        mine.update({i: s for i, s in self.best.asked.items() if i not in sharded}, ())
        theirs.update(sharded, ())
        return mine, theirs


def _shards(rounds: Sequence[Stats]) -> ShardsFigures | None:
    return figures_of(rounds[-1]).shards if rounds else None


class WindowsPlan:
    """The shared windows of all relations."""

    def __init__(self) -> None:
        self._streams: dict[str, StreamWindows] = {}
        self._stream_of: dict[int, str] = {}

    def update(self, come: Mapping[int, Planned], gone: Sequence[int]) -> None:
        taken: dict[str, list[int]] = {}
        added: dict[str, dict[int, Share]] = {}
        for query_id in gone:
            taken.setdefault(self._stream_of.pop(query_id), []).append(query_id)
        for query_id, own in come.items():
            assert isinstance(own.claim.asked, Share)
            source = self._stream_of[query_id] = own.registered.query.source
            added.setdefault(source, {})[query_id] = own.claim.asked
        for name in dict.fromkeys((*taken, *added)):
            self._of(name).update(added.get(name, {}), taken.get(name, ()))

    def catch_up(self) -> None:
        for windows in self._streams.values():
            windows.made(())

    def explain(self, relation: Relation, rounds: Histories) -> list[str]:
        windows, history = self._of(relation.name), rounds.get(relation.name, ())
        shards = _shards(history)
        if shards is None:
            return explain_windows(windows.assignment(history), windows.made(history)[0])
        mine, theirs = windows.sides(shards)
        return [
            *explain_windows(mine.assignment(history), mine.made(history)[0]),
            *explain_shards(shards),
            *explain_windows(theirs.assignment(history), theirs.made(history)[0]),
        ]

    def explain_query(self, query_id: int, rounds: Histories) -> list[str]:
        source = self._stream_of[query_id]
        windows, history = self._of(source), rounds.get(source, ())
        title, told, shards = "shared windows", list[str](), _shards(history)
        if shards is not None:
            mine, theirs = windows.sides(shards)
            windows = theirs if query_id in theirs.best.asked else mine
            if windows is theirs:
                title, told = "shared windows, in shards", explain_shards(shards)[1:]
        assignment, (cuts, _) = windows.assignment(history), windows.made(history)
        return [title, *explain_window_query(query_id, assignment, cuts), *told]

    def price(self, relation: Relation, rounds: Histories) -> dict[str, float]:
        """With windows the whole round: their aggregate counts the rows."""
        if not self.counts_rows(relation):
            return {}
        history = rounds.get(relation.name, ())
        return price_of(self._of(relation.name).made(history)[1], history)

    def reads_rows(self, relation: Relation) -> bool:
        return bool(self._of(relation.name).best.asked)

    def counts_rows(self, relation: Relation) -> bool:
        return self.reads_rows(relation)

    def measured(self, stats: Stats) -> list[str]:
        own = figures_of(stats)
        return [] if own == WindowsFigures() else measured_line(own)

    def _of(self, relation: str) -> StreamWindows:
        return self._streams.setdefault(relation, StreamWindows())


def price_of(work: Workload, history: Sequence[Stats]) -> dict[str, float]:
    """Seconds of the next round by stage, by the rates alone."""
    return priced(quantities_of(work, flow_of(history) or ASSUMED))


def shares_of(
    queries: Mapping[int, Planned],
    relation: Relation,
    rounds: Sequence[Stats],
    counts: Mapping[int, int],
) -> dict[str, Floats]:
    """Parts of each stage, in the order of the queries."""
    best = BestPlacement()
    asked = {i: own.claim.asked for i, own in queries.items()}
    best.update({i: a for i, a in asked.items() if isinstance(a, Share)}, ())
    assignment = best.but(figures_of(rounds[-1]).exceptions)
    users = Users(assignment, plan_cuts(in_order(assignment), is_united(rounds)))
    place = {query_id: at for at, query_id in enumerate(assignment.shares)}
    order = [place[query_id] for query_id in queries]
    return {
        stage: part[order]
        for stage, part in split(users, _quantities(users.work, rounds), counts).items()
    }


def _quantities(work: Workload, rounds: Sequence[Stats]) -> Quantities:
    """What the rounds did, all together."""
    total: Quantities = {}
    for stats in rounds:
        for name, quantity in quantities_of(work, flow_of_round(stats)).items():
            total[name] = total[name] + quantity if name in total else quantity
    return total
