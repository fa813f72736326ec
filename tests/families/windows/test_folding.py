"""Folding the pane log: rows against a page of Python, whole runs against never folding, a month in
little room."""

from __future__ import annotations

import math
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.config import Config
from headrace.families.windows.aggregation.aggregate import PANE, SET, cell_name, key_name
from headrace.families.windows.aggregation.columns import part_names
from headrace.families.windows.cells import cell
from headrace.families.windows.cuts import Cut, Cuts
from headrace.families.windows.measures import ROWS, Measure
from headrace.families.windows.pane_log import compaction_plan as fold_plan
from headrace.families.windows.pane_log.compaction import common_groupings, fold, project
from headrace.families.windows.pane_log.compaction_plan import CompactionPlan, Step, steps_for
from headrace.families.windows.pane_log.panes import PaneRound
from headrace.runtime.ledger import FileMark
from headrace.sql.bind import bind
from headrace.sql.tree import Column, Expr
from headrace.values import BIGINT, DOUBLE, INT, STRING, Relation
from tests.families.windows.logged import (
    FIELDS,
    Answer,
    Logged,
    Row,
    by_end,
    expected,
    near,
    panes_of,
    part_of,
)

S = 1_000_000
DAY = 86_400 * S
X, N, K = Column("x", DOUBLE), Column("n", BIGINT), Column("k", STRING)
MEASURES = (
    ROWS,
    Measure("count", X),
    Measure("sum_float", X),
    Measure("moments", X),
    Measure("min_float", X),
    Measure("max_float", X),
    Measure("sum_int", N),
    Measure("min_int", N),
    Measure("max_int", N),
)
RELATION = Relation("s", "none:", FIELDS, "ts")
CUTS = Cuts(10, (Cut((K, N), ()), Cut((K,), ())), MEASURES)

VALUES = st.one_of(st.none(), st.floats(-1e6, 1e6))
ROWS_OF = st.lists(
    st.builds(
        Row,
        st.integers(-500, 500),
        st.sampled_from(["a", "ü", "", None]),
        st.integers(-(2**62), 2**62),
        VALUES,
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ROWS_OF, min_size=1, max_size=4), st.sampled_from([10, 20, 70, 1000]))
def test_folded_rows_are_those_of_wider_panes(rounds: list[list[Row]], width: int) -> None:
    """Against one aggregate of all rows: same cells, exact whole numbers, doubles but for their
    last bits."""
    whole = panes_of(replace(CUTS, pane_us=width), [r for part in rounds for r in part])
    folded = fold(CUTS, width, [panes_of(CUTS, part) for part in rounds])
    assert folded.schema.names == whole.schema.names
    assert folded.column(PANE).to_pylist() == sorted(folded.column(PANE).to_pylist())
    marks = [PANE, key_name(0), key_name(1), SET]
    a, b = ({tuple(row[m] for m in marks): row for row in t.to_pylist()} for t in (folded, whole))
    assert a.keys() == b.keys() and folded.num_rows == whole.num_rows
    for (function, _), name in part_names(CUTS.measures).items():
        for group, row in a.items():
            assert same_part(function, row[name], b[group][name]), (function, group)


def same_part(function: str, folded: Any, whole: Any) -> bool:
    """What had no value holds an identity."""
    if whole is None:
        return bool(folded in (0, -math.inf) or math.isnan(folded))
    if isinstance(whole, float):
        return math.isclose(
            folded, whole, rel_tol=1e-9, abs_tol=1e-3 if function == "var_pop" else 1e-6
        )
    return bool(folded == whole)


def test_nan_is_the_greatest() -> None:
    rows = [
        Row(0, "a", 1, math.nan),
        Row(0, "a", 1, 2.0),
        Row(0, "b", 1, math.nan),
        Row(0, "b", 1, None),
    ]
    folded = fold(CUTS, 1000, [panes_of(CUTS, [row]) for row in rows])
    names = part_names(CUTS.measures)
    found = {row[key_name(0)]: row for row in folded.to_pylist() if row[SET] == 1}
    low, high = names["min", "`x`"], names["max", "`x`"]
    assert found["a"][low] == 2.0 and math.isnan(found["a"][high])
    assert math.isnan(found["b"][low]) and math.isnan(found["b"][high])


def test_variances_fold_as_moments(seed: int) -> None:
    r = Random(seed)
    rows = [Row(i, "a", 1, 1e6 + r.uniform(0, 1)) for i in range(100)]
    folded = fold(CUTS, 1000, [panes_of(CUTS, rows[i : i + 7]) for i in range(0, 100, 7)])
    name = part_names(CUTS.measures)["var_pop", "`x`"]
    assert math.isclose(
        folded.column(name)[0].as_py(), part_of("var_pop", [row.x for row in rows]), rel_tol=1e-9
    )


def test_sketches_are_folded_away_when_nobody_needs_them() -> None:
    """Rounds with sketches stay as they are for as long as windows over sketches reach."""
    cuts = replace(CUTS, measures=(*MEASURES, Measure("distinct", K)))
    entries = [replace(entry(i, i * S), cuts=cuts) for i in range(2_000)]
    needs = [(10 * S, 10 * S), (30 * DAY, DAY)]
    young = CompactionPlan(needs, 0, 10_000, 1 << 30, sketches_us=2_000 * S)
    assert young.next(entries, 2_000 * S) is None
    due = CompactionPlan(needs, 0, 10_000, 1 << 30, sketches_us=1_000 * S).next(entries, 2_000 * S)
    assert due is not None and due.cuts.measures == MEASURES and due.stop == 1_000
    table = panes_of(CUTS, [Row(0, "a", 2, 1.0), Row(0, "b", 3, None)])
    (name,) = set(part_names(cuts.measures).values()) - set(part_names(MEASURES).values())
    both = project(table.append_column(name, pa.array([[b"x"]] * table.num_rows)), cuts, CUTS)
    kept = table.select(both.column_names)
    assert (
        both.equals(pa.Table.from_arrays(kept.columns, kept.column_names))
        and name not in both.column_names
    )


def where_of(text: str) -> Expr:
    sql = f"SELECT count(*) AS c FROM s WHERE {text} GROUP BY k, window(ts, '1 second')"
    found = bind(sql, {"s": RELATION}, name="q", config=Config()).where
    assert found is not None
    return found


POSITIVE, FACT = where_of("n > 0"), where_of("k = 'a'")


@settings(max_examples=40, deadline=None)
@given(ROWS_OF, st.booleans())
def test_what_two_groupings_have_in_common(rows: list[Row], shared: bool) -> None:
    left = Cuts(10, (Cut((K,), (POSITIVE, FACT)),), MEASURES[:5])
    right = Cuts(10, (Cut((K,), (POSITIVE,) if shared else ()),), MEASURES[::2])
    common = common_groupings(left, right)
    assert common is not None
    assert common.cuts == (Cut((K,), (POSITIVE, FACT) if shared else (FACT,)),), (
        "what follows from keys stays"
    )
    assert set(common.measures) == set(MEASURES[:5]) & set(MEASURES[::2])
    whole = fold(common, 10, [panes_of(common, rows)])
    for given_cuts in (left, right):
        ours = fold(common, 10, [project(panes_of(given_cuts, rows), given_cuts, common)])
        assert ours.schema.names == whole.schema.names and sorted_rows(ours) == sorted_rows(whole)


def sorted_rows(table: pa.Table) -> list[str]:
    """As text, doubles to twelve digits (-0.0 is 0)."""
    return sorted(
        str({n: float(f"{v + 0.0:.9e}") if isinstance(v, float) else v for n, v in row.items()})
        for row in table.to_pylist()
    )


def test_other_keys_have_nothing_in_common() -> None:
    assert (
        common_groupings(Cuts(10, (Cut((K,), ()),), MEASURES), Cuts(10, (Cut((N,), ()),), MEASURES))
        is None
    )
    assert common_groupings(CUTS, Cuts(10, (Cut((K,), ()),), MEASURES)) is None


def test_queries_that_come_and_go_do_not_break_the_log_into_pieces(tmp_path: Path) -> None:
    """A query for a few rounds, again and again: what nobody needs any more is folded away."""
    run = Logged(tmp_path, Config())
    run.add(1, QUERIES[1].format("window(ts, '2 seconds')"))
    run.add(2, QUERIES[1].format("window(ts, '2 hours', '10 minutes')"))
    r, now = Random(2), 1_700_000_000 * S
    for number in range(300):
        now += 20 * S
        if number % 4 == 0:
            run.add(100 + number, QUERIES[0].format("window(ts, '6 seconds')"))
        if number % 4 == 2:
            run.drop(98 + number)
        run.round(
            [
                Row(now - r.randrange(9 * S), r.choice("ab"), r.randint(-3, 9), r.uniform(-9, 9))
                for _ in range(6)
            ]
        )
    log = run.rings.log
    folded = [e for e in log.rounds if e.is_folded]
    assert len({e.cuts.measures for e in log.rounds if not e.is_folded}) > 1, (
        "groupings change all the time"
    )
    assert len(folded) < 20 and all(e.cuts.pane_us == 600 * S for e in folded)
    run.open()
    run.round([Row(now + 7200 * S, "a", 1, 1.0)])
    assert [a[0] for a in run.answers[2] if a[1] == "a"] == sorted({a[0] for a in run.answers[2]})


# -- what is folded when ---------------------------------------------------------------------------


def entry(
    number: int, newest_us: int, pane_us: int = 10 * S, size: int = 1_000, folded: bool = False
) -> PaneRound:
    mark = FileMark(f"streams/s/{'folded' if folded else 'panes'}/{number}", size, 0)
    return PaneRound(number, newest_us - S, newest_us, Cuts(pane_us, CUTS.cuts, MEASURES), 5, mark)


def test_steps_are_what_is_still_needed_at_each_age() -> None:
    hour = 3_600 * S
    needs = [
        (10 * S, 10 * S),
        (60 * S, 10 * S),
        (hour, 60 * S),
        (DAY, 600 * S),
        (30 * DAY, DAY),
        (hour, 90 * S),
    ]
    assert steps_for(needs) == [
        Step(60 * S, 10 * S),
        Step(hour, 30 * S),
        Step(DAY, 600 * S),
        Step(30 * DAY, DAY),
    ]
    assert steps_for([]) == []


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 400), st.integers(1, 12)), max_size=6), st.integers(0, 500)
)
def test_a_step_divides_the_grain_of_all_who_look_back_so_far(
    needs: list[tuple[int, int]], age: int
) -> None:
    needs = [(r * g, g) for r, g in needs]
    step = next((s for s in steps_for(needs) if s.reach_us >= age), None)
    grains = [g for r, g in needs if r >= age]
    assert (step.width_us if step else 0) == math.gcd(*grains)


def test_panes_of_the_history_stay_as_they_are() -> None:
    entries = [entry(i, i * S) for i in range(2_000)]
    needs = [(10 * S, 10 * S), (30 * DAY, DAY)]
    assert CompactionPlan(needs, 0, 10_000, 1 << 30).next(entries, 2_000 * S) is not None
    assert CompactionPlan(needs, 2_000 * S, 10_000, 1 << 30).next(entries, 2_000 * S) is None


def test_few_rounds_are_folded_when_they_are_a_good_part_of_the_range() -> None:
    needs = [(10 * S, 10 * S), (30 * DAY, DAY)]
    plan = CompactionPlan(needs, 0, 10_000, 1 << 30)
    entries = [entry(i, i * DAY // 4) for i in range(20)]
    assert plan.next(entries[:8], 2 * DAY) is None
    due = plan.next(entries[:10], 2 * DAY + DAY // 4)
    assert due is not None and (due.start, due.width_us) == (0, DAY) and due.stop >= 8


def test_too_many_rounds_are_folded_even_at_the_same_width() -> None:
    entries = [entry(i, i * S) for i in range(2_000)]
    needs = [(DAY, 10 * S)]
    assert CompactionPlan(needs, 0, 2_000, 1 << 30).next(entries, 2_000 * S) is None
    due = CompactionPlan(needs, 0, 1_000, 1 << 30).next(entries, 2_000 * S)
    assert due is not None and (due.start, due.width_us) == (0, 10 * S) and due.stop > 1_000


@pytest.mark.parametrize("first_before_us", [-S, None], ids=["goes on", "first of all"])
def test_rewriting_stays_logarithmic(first_before_us: int | None) -> None:
    """A model of the log: a fold's size is that of its days.  Where the log's very first round begins
    is not known; what it was folded into must not take in all that follow."""
    plan = CompactionPlan([(10 * S, 10 * S), (30 * DAY, DAY)], 0, 10_000, 1 << 30)
    entries: list[PaneRound] = []
    written = 0
    step_us = 600 * S
    for number in range(6_000):
        now = number * step_us
        came = entry(number, now)
        entries.append(came if number else replace(came, newest_before_us=first_before_us))
        due = plan.next(entries, now)
        if due is not None:
            gone = entries[due.start : due.stop]
            days = 1 + (gone[-1].newest_us or 0) // DAY - (gone[0].newest_before_us or 0) // DAY
            written += 500 * days
            made = PaneRound(
                gone[-1].round_id,
                gone[0].newest_before_us,
                gone[-1].newest_us,
                replace(gone[0].cuts, pane_us=due.width_us),
                5,
                FileMark("x/folded/1", 500 * days, 0),
            )
            entries[due.start : due.stop] = [made]
        while (entries[0].newest_us or 0) < now - 30 * DAY and len(entries) > 1:
            del entries[0]
    folded = [e for e in entries if e.is_folded]
    assert len(folded) < 24 and sum(e.mark.size for e in folded) < 500 * 30 * 2
    assert written < 6_000 * 1_000 * 0.2
    spans = [(e.newest_us or 0) - (e.newest_before_us or 0) for e in folded]
    assert max(spans) <= 30 * DAY // 8


# -- whole runs ------------------------------------------------------------------------------------

QUERIES = (
    "SELECT k, count(*) AS c, sum(n) AS s, avg(x) AS a, min(x) AS lo FROM s WHERE n > 0 GROUP BY k, {}",
    "SELECT k, sum(x) AS s, stddev(x) AS d, max(n) AS hi FROM s GROUP BY k, {}",
    "SELECT count(x) AS c, max(x) AS hi FROM s GROUP BY {}",
)
WINDOWS = (
    "window(ts, '40 seconds', '2 seconds')",
    "window(ts, '30 seconds', '6 seconds')",
    "window(ts, '1 minute')",
    "window(ts, '2 minutes', '20 seconds')",
    "window(ts, '90 seconds', '45 seconds', '5 seconds')",
)


@dataclass(frozen=True)
class Event:
    """Between two rounds: restart, or add or drop a query."""

    verb: str
    query: int = 0
    window: int = 0


EVENTS = st.one_of(
    *[st.just(Event("round"))] * 6,
    st.just(Event("restart")),
    st.builds(Event, st.just("add"), st.integers(0, 2), st.integers(0, 4)),
    st.builds(Event, st.just("drop"), st.integers(0, 5)),
)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(EVENTS, min_size=50, max_size=90),
    st.integers(0, 10**6),
    st.sampled_from([0, 3 * S]),
    st.sampled_from([1, 3]),
    st.sampled_from([0, 20_000]),
)
def test_folding_changes_no_answer(
    events: list[Event], seed: int, late_us: int, rounds: int, history_ms: int
) -> None:
    """Queries there from the start answer the same; later ones may know less of the past, but
    nothing wrong."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        twins = [
            Logged(Path(folder) / name, Config.of(history_ms=history_ms), late_us) for name in "ab"
        ]
        for run in twins:
            for i, query in enumerate(QUERIES):
                for w in (0, 3):
                    run.add(10 * i + w, query.format(WINDOWS[w]))
        patch.setattr(fold_plan, "FOLD_ROUNDS", rounds)
        play(twins[0], events, Random(seed))
        patch.setattr(CompactionPlan, "next", lambda *_: None)
        play(twins[1], events, Random(seed))
    folded, whole = (by_end(run.answers) for run in twins)
    assert folded.keys() <= whole.keys()
    for query_id, rows in whole.items():
        ours = folded.get(query_id, [])
        if query_id < 100:
            assert len(ours) == len(rows)
        ends = {a[:2] if query_id % 100 // 10 < 2 else a[:1]: a for a in rows}
        for answer in ours:
            assert near(answer, ends[answer[:2] if query_id % 100 // 10 < 2 else answer[:1]])


def play(run: Logged, events: list[Event], r: Random) -> None:
    now, added = 1_700_000_000 * S, 100
    for event in events:
        match event.verb:
            case "restart":
                run.open()
            case "add":
                added += 100
                run.add(
                    added + 10 * event.query + event.window,
                    QUERIES[event.query].format(WINDOWS[event.window]),
                )
            case "drop":
                later = [i for i in run.queries if i >= 100]
                if later:
                    run.drop(later[event.query % len(later)])
            case _:
                now += r.randrange(12) * S
                rows = [
                    Row(
                        now - r.randrange(4 * S),
                        r.choice(["a", "b", None]),
                        r.randint(-3, 9),
                        r.choice([None, r.uniform(-10, 10)]),
                    )
                    for _ in range(r.randrange(9))
                ]
                run.round(rows)


def test_who_came_later_misses_nothing_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Rounds that have what it needs are not folded with rounds that have not."""
    monkeypatch.setattr(fold_plan, "FOLD_ROUNDS", 2)
    runs = [Logged(tmp_path / name, Config()) for name in "ab"]
    for run in runs:
        run.add(1, QUERIES[1].format(WINDOWS[0]))
        run.add(2, QUERIES[1].format(WINDOWS[3]))
        r, now = Random(seed), 1_700_000_000 * S
        for number in range(90):
            now += 5 * S
            if number == 40:
                run.add(3, QUERIES[0].format(WINDOWS[3]))
            run.round(
                [
                    Row(
                        now - r.randrange(5 * S), r.choice("ab"), r.randint(-3, 9), r.uniform(-1, 1)
                    )
                    for _ in range(9)
                ]
            )
            if number % 3 == 1:
                run.open()
        monkeypatch.setattr(CompactionPlan, "next", lambda *_: None)
    folded, whole = (by_end(run.answers) for run in runs)
    assert len(whole[3]) > 8
    for query_id, rows in whole.items():
        assert len(folded[query_id]) == len(rows) and all(map(near, folded[query_id], rows))


def test_without_a_fold_a_restart_changes_no_bit(tmp_path: Path, seed: int) -> None:
    runs = [Logged(tmp_path / name, Config()) for name in "ab"]
    for run in runs:
        for i, query in enumerate(QUERIES):
            run.add(i, query.format(WINDOWS[3]))
        r, now = Random(seed), 1_700_000_000 * S
        for number in range(100):
            now += 5 * S
            run.round(
                [
                    Row(now - r.randrange(5 * S), "a", r.randint(-3, 9), r.uniform(-1, 1))
                    for _ in range(9)
                ]
            )
            if run is runs[1] and number % 20 == 7:
                run.open()
        assert not run.rings.log.held
    assert by_end(runs[0].answers) == by_end(runs[1].answers)


# -- 30 days ---------------------------------------------------------------------------------------

FINE = "SELECT k, count(*) AS c, sum(x) AS s FROM s GROUP BY k, window(ts, '10 seconds')"
LONG = "SELECT k, count(*) AS c, sum(n) AS t, avg(x) AS a FROM s GROUP BY k, window(ts, '30 days', '1 day')"
HOUR = "SELECT k, max(x) AS hi FROM s GROUP BY k, window(ts, '1 hour', '1 minute')"
GROUPS = 5
ROUND_PANES = 120
DAYS = 33


def month(run: Logged, start_us: int, rounds: int, rng: np.random.Generator) -> int:
    """Rounds of 20 minutes, a row in each pane of 10 s and group; (n of each row is 1, x its pane's
    number mod 7)."""
    for number in range(rounds):
        first = start_us + number * ROUND_PANES * 10 * S

        def panes(cuts: Cuts, first: int = first) -> pa.Table:
            at = np.repeat(first + np.arange(ROUND_PANES) * 10 * S, GROUPS)
            x = (at // (10 * S) % 7).astype(np.float64)
            ones = np.ones(at.size, np.int64)
            columns: dict[str, Any] = {PANE: at, key_name(0): pa.array(np.tile(NAMES, ROUND_PANES))}
            for (function, text), name in part_names(cuts.measures).items():
                values = {"`x`": x, "`n`": ones, "1": ones}[text]
                columns[name] = ones if function in ("count", "sum_low") else values
                columns[name] = 0 * ones if function == "sum_high" else columns[name]
            return pa.table(columns)

        run.round_of(panes, first + ROUND_PANES * 10 * S - 1)
    return start_us + rounds * ROUND_PANES * 10 * S


NAMES = np.array([f"group {i}" for i in range(GROUPS)])


@pytest.mark.slow
def test_thirty_days_beside_ten_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fine panes of a month would take 28 times the room; what is kept is days, hours of minutes
    and fine ones."""
    monkeypatch.setattr(fold_plan, "FOLD_ROUNDS", 16)
    run = Logged(tmp_path, Config())
    for i, sql in enumerate((FINE, LONG, HOUR)):
        run.add(i, sql)
    start = 19_000 * DAY
    end = month(run, start, DAYS * 72, np.random.default_rng(1))
    log = run.rings.log
    unfolded = 30 * 72 * max(e.mark.size for e in log.rounds if not e.is_folded)
    assert run.log_bytes_on_disk() == log.nbytes < unfolded / 25
    assert len(log.rounds) < 60
    # a restart reads little, and goes on as if nothing had been
    began = time.perf_counter()
    run.open()
    month(run, end, 73, np.random.default_rng(2))
    assert time.perf_counter() - began < 20
    check_month(run, start, end + 73 * 1200 * S - 1)


def check_month(run: Logged, start: int, watermark: int) -> None:
    """Counted by hand: a row each 10 s."""
    days = {a[0]: a for a in run.answers[1] if a[1] == "group 3"}
    assert sorted(days) == [start + d * DAY for d in range(1, (watermark - start) // DAY + 1)]
    for end, (_, _, count, total, mean) in days.items():
        first = max(start, end - 30 * DAY) // (10 * S)
        panes = np.arange(first, end // (10 * S)) % 7
        assert (count, total) == (panes.size, panes.size)
        assert math.isclose(mean, float(panes.mean()), rel_tol=1e-12)
    fine = [a for a in run.answers[0] if a[1] == "group 3"]
    assert [a[0] for a in fine] == [start + (i + 1) * 10 * S for i in range(len(fine))]
    assert len(fine) == (watermark - start) // (10 * S)
    hours = [a for a in run.answers[2] if a[1] == "group 3"]
    assert len(hours) == (watermark - start) // (60 * S) and all(a[2] == 6.0 for a in hours[1:])


def test_answers_over_a_folded_log_are_those_of_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Against every row ever, with restarts."""
    monkeypatch.setattr(fold_plan, "FOLD_ROUNDS", 5)
    run = Logged(tmp_path, Config())
    run.add(1, QUERIES[0].format(WINDOWS[0]))
    run.add(2, QUERIES[0].format(WINDOWS[3]))
    r, now, rows = Random(seed), 1_700_000_000 * S, list[Row]()
    for number in range(120):
        now += 5 * S
        new = [
            Row(now - r.randrange(5 * S), r.choice("ab"), r.randint(-3, 9), r.uniform(-9, 9))
            for _ in range(6)
        ]
        rows += run.counted(new)
        run.round(new)
        if number % 5 == 3:
            run.open()
            assert number < 30 or run.rings.log.held
    newest = run.ledger.newest
    assert newest is not None and newest.newest_us is not None
    for query_id in (1, 2):
        whole = expected(
            run.queries[query_id], rows, newest.newest_us, lambda row: row.n > 0, values_of
        )
        ours = sorted(run.answers[query_id], key=lambda a: (a[0], a[1]))
        assert len(ours) == len(whole) and all(near(a, b) for a, b in zip(ours, whole, strict=True))


def values_of(rows: list[Row]) -> Answer:
    xs = [r.x for r in rows if r.x is not None]
    return len(rows), sum(r.n for r in rows), math.fsum(xs) / len(xs), min(xs)


def test_cells_are_folded_to_the_edges_in_common() -> None:
    key = cell(Column("x", INT))
    left, right = (
        Cuts(10, (Cut((), (), (key,)),), (ROWS,), ((key, edges),))
        for edges in ((1, 3, 5), (3, 4, 5))
    )
    common = common_groupings(left, right)
    assert common is not None and common.edges == ((key, (3, 5)),)
    values = [None, 0, 1, 2, 3, 4, 5, 6]
    tables = []
    for cuts in (left, right):
        ranks = [None if v is None else sum(e <= v for e in cuts.edges_of(key)) for v in values]
        rows = {
            PANE: pa.array([0] * len(values), pa.int64()),
            cell_name(cuts, key): pa.array(ranks, pa.int32()),
            "m0": pa.array([1] * len(values), pa.int64()),
        }
        tables.append(project(pa.table(rows), cuts, common))
    found = fold(common, 10, tables).to_pylist()
    assert {row[cell_name(common, key)]: row["m0"] for row in found} == {None: 2, 0: 6, 1: 4, 2: 4}
