"""What every family must do, whatever it shares.  A family is held to it by one `Case` in
`test_conformance.py`.

A case is some queries over the stream of `tests/engine/race.py` (relation `s`), all of one family.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.errors import HeadraceError
from headrace.families import registry
from headrace.families.registry import run_of
from headrace.runtime.ledger import Ledger, Manifest
from headrace.sql.bind import bind
from tests.engine.race import Race, row, rows_of
from tests.streams import canonical, same_rows

CLAIM_S_MAX = 1e-3


@dataclass(frozen=True, slots=True)
class Case:
    """`replaced`: a query to come in place of `gone`, of the same family; `has_windows`: only
    closed ones are answered; `leaves_late_out`: rows that are late count in no answer."""

    family: str
    queries: Mapping[str, str]
    gone: str
    replaced: tuple[str, str]
    has_windows: bool = False
    leaves_late_out: bool = False


Check = Callable[[Case, SparkSession, Path, pytest.MonkeyPatch], None]


def race_of(case: Case, spark: SparkSession, folder: Path) -> Race:
    race = Race(spark, folder)
    race.eng.add_many(case.queries)
    return race


def check_answers(case: Case, race: Race, *names: str) -> None:
    """Each is Spark's answer to the query's own text."""
    if case.has_windows:
        race.check(*names)
        return
    for name in names:
        theirs = race.oracle(name)
        ours = canonical(race.eng.read(name), theirs.column_names)
        assert same_rows(ours, canonical(theirs, theirs.column_names)), f"{name}: {ours}"


def claims_are_pure_and_quick(
    case: Case, spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    eng = race_of(case, spark, folder).eng
    for name, sql in case.queries.items():
        texts = [bind(sql, eng.catalog.relations, name=name) for _ in range(2)]
        runs = [run_of(query, eng.catalog.relation) for query in (*texts, texts[0])]
        assert {run.family.name for run in runs} == {case.family}
        assert runs[0].claim == runs[1].claim == runs[2].claim
        began_s = time.process_time()
        for _ in range(200):
            run_of(texts[1], eng.catalog.relation)
        assert time.process_time() - began_s < 200 * CLAIM_S_MAX


def answers_are_sparks_after_restarts(
    case: Case, spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    race = race_of(case, spark, folder)
    for at_s in (0, 40, 80):
        race.feed(
            rows_of(at_s, 30),
            [*rows_of(at_s + 29, 5), *([row(at_s - 15)] if case.leaves_late_out else [])],
        )
        race.eng.run()
        check_answers(case, race, *case.queries)
        race.open()
    check_answers(case, race, *case.queries)


def a_round_that_was_not_committed_is_done_again(
    case: Case, spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last file of three is read and answered, and the commit fails."""
    race = race_of(case, spark, folder)
    race.feed(rows_of(0, 30), rows_of(30, 30), rows_of(60, 30))
    commit = Ledger.commit

    def fail_once(ledger: Ledger, manifest: Manifest) -> None:
        if manifest.round_id == 2:
            monkeypatch.setattr(Ledger, "commit", commit)
            raise OSError(28, "No space left on device")
        commit(ledger, manifest)

    monkeypatch.setattr(Ledger, "commit", fail_once)
    with pytest.raises(HeadraceError):
        race.eng.run()
    race.open().run()
    check_answers(case, race, *case.queries)


def queries_come_and_go(
    case: Case, spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who stays does not notice; who comes before the first row of a stream is answered from
    there."""
    race = race_of(case, spark, folder)
    race.eng.drop(case.gone)
    race.eng.add(case.replaced[1], name=case.replaced[0])
    race.feed(rows_of(0, 30))
    race.eng.run()
    race.eng.drop(case.replaced[0])
    race.feed(rows_of(30, 30))
    race.eng.run()
    left = [name for name in case.queries if name != case.gone]
    check_answers(case, race, *left)
    assert {q.name for q in race.eng.queries()} == set(left)


def it_is_explained_listed_and_described(
    case: Case, spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    race = race_of(case, spark, folder)
    race.feed(rows_of(0, 30))
    race.eng.run()
    plan = race.eng._plans.by_family[case.family]
    relation = race.eng.catalog.relation("s")
    whole = race.eng.explain()
    lines = plan.explain(relation, {})
    assert lines and lines[0] in whole
    assert set(plan.price(relation, {})) & set(
        next(f for f in registry.FAMILIES if f.name == case.family).stages
    )
    for name in case.queries:
        title = plan.explain_query(race.eng.catalog.query(name).id, {})[0]
        assert f"  runs:     {title}" in race.eng.explain(name).splitlines()
        about = race.eng.describe(name)
        assert (about.family, about.state) == (case.family, "live")
        assert [column for column, _ in about.columns] == race.eng.results(name).column_names
        assert race.eng.results(name, limit=1).column_names == race.eng.results(name).column_names
    assert {q.family for q in race.eng.queries()} == {case.family}
    is_last = case.family == registry.FAMILIES[-1].name
    assert all(bool(q.reason) == is_last for q in race.eng.queries()), (
        "a reason says why nobody shares it"
    )


def shares_add_up_to_what_was_measured(
    case: Case, spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a plain query, which pays for itself."""
    race = race_of(case, spark, folder)
    race.eng.add("SELECT upper(k) AS u FROM s", name="beside")
    race.feed(rows_of(0, 30), rows_of(30, 30))
    race.eng.run()
    (cost,) = race.eng.costs()
    assert {q.name for q in cost.queries} == {*case.queries, "beside"}
    assert sum(q.seconds for q in cost.queries) == pytest.approx(cost.measured_s)
    assert all(q.seconds > 0 for q in cost.queries)


CHECKS: tuple[Check, ...] = (
    claims_are_pure_and_quick,
    answers_are_sparks_after_restarts,
    a_round_that_was_not_committed_is_done_again,
    queries_come_and_go,
    it_is_explained_listed_and_described,
    shares_add_up_to_what_was_measured,
)
