"""A round of windows whose state the driver holds: one Spark aggregate, then array operations.

Spark leaves panes × groups × signatures; rings take them in, close what the watermark has passed,
and every window that ends there is answered by one join (`rings/ring.py`).  Each expression of
SELECT and HAVING runs once over the answers of all queries that have it (`rings/answering.py`),
whatever rings they come from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.catalog.catalog import Registered
from headrace.errors import RoundError
from headrace.families.windows.aggregation.aggregate import aggregate_sql
from headrace.families.windows.aggregation.blaming import Blaming
from headrace.families.windows.aggregation.counting import count_kinds
from headrace.families.windows.aggregation.cutting import UNTRIED, ChoiceState
from headrace.families.windows.aggregation.declaring import DeclaredEdges
from headrace.families.windows.aggregation.eviction import evicted_by_groups, evicted_by_sketches
from headrace.families.windows.aggregation.rows import place_rows, rows_sql
from headrace.families.windows.aggregation.sending import (
    LOOK_ROUNDS,
    NOTHING_KNOWN,
    Sending,
    SendingState,
)
from headrace.families.windows.costs.load_meter import LoadMeter
from headrace.families.windows.costs.workload import count_groups
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.facts import Facts
from headrace.families.windows.figures import NAME, WindowsFigures, figures_of
from headrace.families.windows.plan import Share
from headrace.families.windows.rings.answering import Answering
from headrace.families.windows.rings.rings import Rings
from headrace.families.windows.shards.choice import NO_LOAD, Load, Sharding, columns_keyed
from headrace.families.windows.sketches.arriving import arrive, came_whole
from headrace.families.windows.sketches.bias import Bias
from headrace.families.windows.sketches.kinds import Limits
from headrace.families.windows.sketches.sketch_stores import limits_of
from headrace.records import encode
from headrace.runtime.answers import Pieces
from headrace.runtime.collecting import to_arrow
from headrace.runtime.family import (
    Batch,
    Outcome,
    Place,
    Reading,
    Round,
)
from headrace.runtime.hll_tables import hll_tables
from headrace.runtime.statistics import Stopwatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VIEW = "headrace_batch"
WHO = "driver"


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the rounds so far have decided of how the next is read; committed with each."""

    cutting: ChoiceState = UNTRIED
    sending: SendingState = NOTHING_KNOWN
    sharding: Sharding | None = None
    shard_cutting: ChoiceState = UNTRIED


class DriverWork:
    """The shared windows of one stream, held by the driver."""

    def __init__(self, place: Place, edges: DeclaredEdges) -> None:
        self._place = place
        chosen = place.ledger.chosen(NAME, Chosen)
        newest = place.ledger.newest
        told = {} if newest is None else place.ledger.stats(newest)
        figures = figures_of(told)
        self._rings = Rings(
            place.disk, place.ledger, place.config, chosen.cutting, figures.exceptions
        )
        self._answering = Answering()
        self._load_meter = LoadMeter()
        self._edges = edges
        self._grouped_rounds = 0
        self._sending = Sending(place.config.cut_rows_max // 2, chosen.sending)
        self.until: Mapping[int, int] = {}
        """Windows of these queries that start at this time, or later, are answered by shards."""
        self._blaming = Blaming(self, place.config.quarantine_probes_max, self._collect_groups)

    @property
    def reads_rows(self) -> bool:
        return bool(self._rings.shares())

    @property
    def counts_rows(self) -> bool:
        """Its aggregate goes through all rows, those that do not count among them."""
        return self.reads_rows

    def replan(self, queries: Sequence[Registered]) -> None:
        self._rings.assign(queries, self._place.relation)

    @property
    def nbytes(self) -> int:
        """What it holds, weighed every few rounds."""
        return self._rings.nbytes

    @property
    def loads(self) -> Mapping[frozenset[str], Load]:
        """What is held, by the columns that may tell shards apart."""
        found: dict[frozenset[str], Load] = {}
        for slot, groups, nbytes in self._rings.sizes():
            keyed = columns_keyed(slot)
            before = found.get(keyed, NO_LOAD)
            found[keyed] = Load(max(before.groups, groups), before.nbytes + nbytes)
        return found

    def read(self, batch: Batch, round: Round, watch: Stopwatch) -> Reading:
        if not self.reads_rows:
            return Reading(self._pass)
        cuts = self._rings.cutting.cuts()
        as_rows = self._sending.sends_rows(cuts, batch.is_small)
        faults = self._learn_bias(cuts, batch.frame.sparkSession)
        if faults:
            return Reading(_nothing, faults=faults)
        limits = self._limits(batch, as_rows)
        with watch.stage("spark"):
            table, faults = self._collect_or_blame(batch, cuts, limits, as_rows)
        if table is None:
            return Reading(_nothing, faults=faults) if faults else self.read(batch, round, watch)
        if limits.is_small and not came_whole(
            table, cuts.measures, limits, self._place.config.sketch_bytes_max
        ):
            self._grouped_rounds = LOOK_ROUNDS
            return self.read(batch, round, watch)
        if as_rows:
            self._sending.note(table.num_rows, table.num_rows, as_rows)
        if table.num_rows > self._place.config.cut_rows_max:
            if as_rows or self._rings.cutting.cut_apart():
                return self.read(batch, round, watch)
            faults = evicted_by_groups(
                cuts, table, self._rings.shares(), self._place.config.cut_rows_max
            )
            return Reading(_nothing, faults=faults)
        faults = evicted_by_sketches(
            cuts, table, limits, self._rings.shares(), self._place.config.sketch_bytes_max
        )
        if faults:
            return Reading(_nothing, faults=faults)
        census, panes = count_kinds(table)
        if not as_rows:
            self._sending.note(census.rows, panes.num_rows, as_rows)
            self._rings.cutting.note(census.rows, panes.num_rows)
        self._blaming.passed()
        facts = Facts(batch.frame.sparkSession, self._place.config.quarantine_probes_max)
        self._grouped_rounds -= self._grouped_rounds > 0
        return Reading(partial(self._answer, cuts, panes, limits, facts, self._chosen()), census)

    def _limits(self, batch: Batch, as_rows: bool) -> Limits:
        """A small round sends values as they come, unless one before had too many of them."""
        as_they_come = batch.is_small and not as_rows and not self._grouped_rounds
        return replace(limits_of(self._place.config), is_small=as_they_come)

    def _learn_bias(self, cuts: Cuts, session: SparkSession) -> dict[int, str]:
        """The tables that registers of these sizes are read with, before the first answer asks for
        them; or the queries that ask for registers, where this Spark does not show its tables."""
        for precision in {
            m.params[0] for m in cuts.measures if m.kind == "hll"
        } - self._rings.bias.keys():
            try:
                threshold, raw, bias = hll_tables(session, precision)
            except RoundError as error:
                shares = self._rings.shares()
                return {
                    i: error.what
                    for i, own in shares.items()
                    if any(m.kind == "hll" for m in own.measures)
                }
            self._rings.bias[precision] = Bias(threshold, np.array(raw), np.array(bias))
        return {}

    def _chosen(self) -> Chosen:
        """What the next round is read by: taken when this one has been read, as the next may be
        read before this one is committed."""
        return Chosen(self._rings.cutting.state, self._sending.state)

    def _answer(
        self,
        cuts: Cuts,
        panes: pa.Table,
        limits: Limits,
        facts: Facts,
        chosen: Chosen,
        round: Round,
        watch: Stopwatch,
    ) -> Outcome:
        outcome = Outcome()
        with watch.stage("roll"):
            if limits.is_small:
                panes = arrive(panes, cuts.measures, limits)
            mark = self._rings.take(cuts, panes, round, facts.evaluate)
            if facts.failed:
                outcome.faults.update(facts.faults(self._rings.shares()))
                # what was put in place of their values is not known of any key
                self._rings.keys.cuts.clear()
        with watch.stage("answer"):
            pieces = Pieces(self._place.disk, self._place.folder, round.id)
            for closed in self._rings.close(round.watermark_us):
                outcome.faults.update(self._rings.barred)
                for blocks, answers in self._answering.finish(
                    closed, self._rings.keys, outcome.faults, self.until
                ):
                    pieces.add(blocks)
                    outcome.answers += answers
            outcome.blocks = pieces.last
            self._rings.barred.clear()
        outcome.files += [*pieces.marks, mark]
        outcome.keep["panes"] = self._rings.prune(round.watermark_us)
        slots = self._rings.keys.slots.items()
        groups = count_groups((slot, len(numbered)) for slot, numbered in slots)
        figures, outcome.priced = self._load_meter.note(
            cuts, self._rings.plans(), groups, panes.num_rows, round
        )
        unshared_s = self._rings.unshared_s(round.census.rows, watch.seconds["spark"])
        self._measure(replace(figures, unshared_s=unshared_s), chosen, outcome)
        return outcome

    def _measure(self, figures: WindowsFigures, chosen: Chosen, outcome: Outcome) -> None:
        log = self._rings.log
        outcome.choices[NAME] = asdict(chosen)
        outcome.held = log.held
        outcome.figures[NAME] = encode(
            replace(
                figures,
                exceptions=self._rings.exceptions,
                next_united=chosen.cutting.united,
                selectivity=self._rings.selectivity,
                ring_bytes=self._rings.nbytes,
                log_bytes=log.nbytes,
                log_files=len(log.rounds),
            )
        )

    def _pass(self, round: Round, watch: Stopwatch) -> Outcome:
        """A round without a query: who comes later must know that its rows are not there.  A table
        has no windows."""
        if self._place.relation.is_table:
            return Outcome(keep={"panes": round.id + 1})
        outcome = Outcome()
        with watch.stage("roll"):
            outcome.files.append(self._rings.skip(round))
            outcome.keep["panes"] = self._rings.prune(round.watermark_us)
        self._measure(WindowsFigures(), self._chosen(), outcome)
        return outcome

    def _collect_or_blame(
        self, batch: Batch, cuts: Cuts, limits: Limits, as_rows: bool
    ) -> tuple[pa.Table | None, dict[int, str]]:
        """What the aggregate leaves; or the queries it fails for, none if it should be run
        again."""
        try:
            return self._collect(batch, cuts, limits, as_rows), {}
        except Exception as error:  # noqa: BLE001 - whatever Spark says, it may be one query's doing
            self._sending.group_next()
            return None, self._blaming.find(batch, cuts, error)

    def _collect(self, batch: Batch, cuts: Cuts, limits: Limits, as_rows: bool) -> pa.Table:
        """Run the aggregate: one SQL text, so that building it costs Spark one parse."""
        frame = batch.frame.coalesce(1) if batch.is_small else batch.frame
        frame.createOrReplaceTempView(VIEW)
        session, relation, kind = frame.sparkSession, batch.relation, batch.kind()
        if as_rows:
            return place_rows(
                cuts, relation, to_arrow(session.sql(rows_sql(cuts, relation, kind, VIEW)))
            )
        self._edges.declare(session, WHO, cuts.edges)
        return to_arrow(session.sql(aggregate_sql(cuts, relation, kind, VIEW, limits)))

    def _collect_groups(self, batch: Batch, cuts: Cuts) -> pa.Table:
        return self._collect(batch, cuts, self._limits(batch, as_rows=False), as_rows=False)

    def shares(self) -> Mapping[int, Share]:
        return self._rings.shares()

    def cut_apart(self) -> bool:
        return self._rings.cutting.cut_apart()

    def done(self) -> None:
        """Nothing waits for it."""

    def rest(self) -> None:
        self._rings.rest()


def _nothing(round: Round, watch: Stopwatch) -> Outcome:
    return Outcome()
