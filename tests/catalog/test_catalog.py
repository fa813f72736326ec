"""The catalog: unique names, all or none, every process sees every change, and ten thousand queries
load fast."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headrace.bench import market
from headrace.catalog.catalog import Catalog
from headrace.config import Config
from headrace.disk import Disk
from headrace.errors import CatalogError
from headrace.sql import codec
from headrace.sql.bind import bind
from headrace.sql.query import Query
from headrace.sql.schema import parse_schema
from headrace.values import INT, Field, Relation
from tests.runtime.recording import QuickDisk
from tests.runtime.scenario import SQL, relation_of

RELATION = relation_of(Path("/src"))
CONFIG = Config()
OTHER = "SELECT v FROM s WHERE v > 2"


def query(name: str, sql: str = SQL) -> Query:
    return bind(sql, {"s": RELATION}, name=name, config=CONFIG)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return QuickDisk(tmp_path)


@pytest.fixture
def catalog(disk: Disk) -> Catalog:
    catalog = Catalog(disk, CONFIG)
    catalog.create(RELATION)
    return catalog


def code_of(error: pytest.ExceptionInfo[CatalogError]) -> str:
    return error.value.code


def test_what_is_registered_is_there_after_opening_again(catalog: Catalog, disk: Disk) -> None:
    catalog.add([query("a"), query("b", "SELECT v FROM s WHERE v > 3")])
    again = Catalog(disk, CONFIG)
    assert again.relations == catalog.relations == {"s": RELATION}
    assert again.queries == catalog.queries and again.version == 2
    assert again.query("b").query == query("b", "SELECT v FROM s WHERE v > 3")


def test_two_catalogs_on_one_home_see_each_other(catalog: Catalog, disk: Disk) -> None:
    other = Catalog(disk, CONFIG)
    catalog.add([query("a")])
    assert other.refresh() and list(other.queries) == ["a"]
    other.drop(["a"])
    other.add([query("b")])
    assert catalog.refresh() and list(catalog.queries) == ["b"]
    assert not catalog.refresh()
    with pytest.raises(CatalogError) as caught:  # looks first: the name was taken by the other
        other.add([query("b", OTHER)])
    assert code_of(caught) == "NAME_TAKEN"


def test_the_same_again_changes_nothing(catalog: Catalog) -> None:
    """The same name and meaning; layout does not matter."""
    catalog.add([query("a")])
    before = catalog.queries["a"], catalog.version
    catalog.add([query("a")])
    catalog.add([query("a", SQL.replace(" ", "\n  "))])
    assert (catalog.queries["a"], catalog.version) == before
    catalog.add([query("a"), query("b"), query("b")])
    assert list(catalog.queries) == ["a", "b"] and catalog.queries["a"] == before[0]


def test_names_are_unique_and_many_are_added_all_or_none(catalog: Catalog) -> None:
    catalog.add([query("a")])
    for batch in (
        [query("b"), query("a", OTHER)],
        [query("b"), query("b", OTHER)],
        [query("b"), query("not a name")],
    ):
        with pytest.raises(CatalogError):
            catalog.add(batch)
        assert list(catalog.queries) == ["a"] and catalog.version == 2


def test_adding_nothing_changes_nothing(catalog: Catalog) -> None:
    catalog.add([])
    assert catalog.version == 1


@pytest.mark.parametrize("name", ["a", "Größe", "_x", "a.b-c", "q1", "a_1.2"])
def test_names(catalog: Catalog, name: str) -> None:
    catalog.add([query(name)])
    assert catalog.query(name).name == name


@pytest.mark.parametrize(
    "name", ["", "1a", "a b", "a/b", "../x", "a.", "-a", "a\n", "x" * 201, "a;b", "a\0"]
)
def test_not_names(catalog: Catalog, name: str) -> None:
    with pytest.raises(CatalogError):
        catalog.add([query(name)])
    assert catalog.version == 1


def test_a_dropped_name_may_come_back_as_another_query(catalog: Catalog, disk: Disk) -> None:
    catalog.add([query("a"), query("b")])
    first = catalog.query("a").id
    catalog.drop(["a"])
    with pytest.raises(CatalogError) as caught:
        catalog.query("a")
    assert code_of(caught) == "UNKNOWN_QUERY"
    catalog.add([query("a")])
    second = catalog.query("a").id
    assert second not in (first, catalog.query("b").id)
    assert Catalog(disk, CONFIG).query("a").id == second


def test_dropping_what_is_not_there_lists_what_is(catalog: Catalog) -> None:
    catalog.add([query("hourly")])
    with pytest.raises(CatalogError, match="hourly"):
        catalog.drop(["hurly"])


def test_a_name_for_a_query_without_one(catalog: Catalog) -> None:
    catalog.add([query("q1"), query("q3")])
    assert catalog.free_name() == "q4"
    catalog.add([query("q4")])
    assert catalog.free_name() == "q5"


def test_a_quarantined_query_stays_so_until_it_is_dropped(catalog: Catalog, disk: Disk) -> None:
    catalog.add([query("a"), query("b")])
    broken = catalog.query("a").id
    catalog.quarantine({broken: "divides by zero", 99: "gone"})
    version = catalog.version
    catalog.quarantine({broken: "again", 99: "gone"})
    assert catalog.version == version
    assert Catalog(disk, CONFIG).query("a").quarantine == "divides by zero"
    assert catalog.query("b").quarantine is None
    catalog.drop(["a"])
    catalog.add([query("a")])
    assert catalog.query("a").quarantine is None


def test_the_version_that_quarantines_a_query_no_longer_answers_it(catalog: Catalog) -> None:
    catalog.add([query("early")])
    catalog.add([query("a")])
    came = catalog.query("a")
    assert [came.is_answered_with(v) for v in (came.version - 1, came.version)] == [False, True]
    catalog.add([query("late")])
    catalog.quarantine({came.id: "divides by zero"})
    ended = catalog.query("a")
    answered = [v for v in range(catalog.version + 2) if ended.is_answered_with(v)]
    assert answered == [came.version, came.version + 1]


def test_a_relation_has_one_definition(catalog: Catalog) -> None:
    catalog.create(RELATION)
    assert catalog.version == 1
    other = Relation("S", RELATION.source, (Field("v", INT),))
    with pytest.raises(CatalogError, match="exists with another definition"):
        catalog.create(other)
    assert catalog.relation("S") == RELATION
    with pytest.raises(CatalogError) as caught:
        catalog.relation("t")
    assert code_of(caught) == "UNKNOWN_RELATION"


def test_a_table_keeps_what_deletes(catalog: Catalog, disk: Disk) -> None:
    fields = parse_schema("k STRING, gone BOOLEAN, away BOOLEAN")
    table = Relation("t", "parquet:/t", fields, key=("k",), deleted="gone")
    catalog.create(table)
    catalog.create(table)
    assert Catalog(disk, CONFIG).relations == {"s": RELATION, "t": table}
    with pytest.raises(CatalogError, match="another definition") as caught:
        catalog.create(replace(table, deleted="away"))
    assert "key k, deleted away" in str(caught.value) and "key k, deleted gone" in str(caught.value)


def test_a_log_from_before_there_were_deletions(catalog: Catalog, disk: Disk) -> None:
    fields = [["k", "string", 0, 0], ["gone", "boolean", 0, 0]]
    old = {
        "name": "t",
        "source": "parquet:/t",
        "time": None,
        "late_us": 0,
        "key": ["k"],
        "fields": fields,
    }
    catalog._log.append({"do": "create", "relation": old})
    table = Relation("t", "parquet:/t", parse_schema("k STRING, gone BOOLEAN"), key=("k",))
    assert Catalog(disk, CONFIG).relation("t") == table


def test_a_limit_is_named(disk: Disk) -> None:
    small = Catalog(disk, Config.of(queries_max=2))
    small.create(RELATION)
    with pytest.raises(CatalogError, match="queries_max = 2"):
        small.add([query("a"), query("b"), query("c")])


def test_a_record_of_another_version_is_said_to_be(catalog: Catalog, disk: Disk) -> None:
    catalog._log.append({"do": "dance"})
    with pytest.raises(CatalogError, match="another version"):
        Catalog(disk, CONFIG)


def test_ten_thousand_queries_load_within_two_seconds(disk: Disk) -> None:
    fields = parse_schema(market.SCHEMA)
    relation = Relation("trades", "parquet:/src", fields, "ts")
    catalog = Catalog(disk, CONFIG)
    catalog.create(relation)
    bound = [
        bind(sql, {"trades": relation}, name=name, config=CONFIG)
        for name, sql in market.queries(np.random.default_rng(1), 10_000).items()
    ]
    for start in range(0, 10_000, 500):
        catalog.add(bound[start : start + 500])
    codec.decode_expr.cache_clear()
    begin = time.process_time()
    found = Catalog(disk, CONFIG)
    took_s = time.process_time() - begin
    assert len(found.queries) == 10_000
    assert took_s < 2.0


def test_what_has_changed_since_a_version_is_told(catalog: Catalog, disk: Disk, seed: int) -> None:
    """Whatever comes, goes and is quarantined: who follows the changes has what there is."""
    rng, version, known = np.random.default_rng(seed), 0, dict[int, str | None]()
    for step in range(60):
        names = list(catalog.queries)
        match rng.integers(4) if names else 0:
            case 0:
                catalog.add([query(f"q{step}_{i}") for i in range(rng.integers(1, 4))])
            case 1:
                catalog.drop(
                    [str(name) for name in rng.choice(names, min(2, len(names)), replace=False)]
                )
            case 2:
                catalog.quarantine({catalog.query(str(rng.choice(names))).id: "why"})
            case _:
                continue  # several changes are told together
        before = catalog.queries
        version, touched = catalog.touched(version)
        known = {i: why for i, why in known.items() if i not in touched}
        known |= {i: own.quarantine for i, own in touched.items() if own is not None}
        assert (
            known == {r.id: r.quarantine for r in catalog.queries.values()}
            and before is catalog.queries
        )
        assert {r.id for r in catalog.quarantined} == {i for i, why in known.items() if why}
    assert catalog.touched(version) == (catalog.version, {})
    again = Catalog(disk, CONFIG)
    assert again.queries == catalog.queries and again.touched(0)[1] == {
        **dict.fromkeys(range(1, max(again.touched(0)[1]) + 1)),
        **{r.id: r for r in catalog.queries.values()},
    }


def test_many_are_dropped_all_or_none(catalog: Catalog) -> None:
    catalog.add([query(name) for name in "abcd"])
    with pytest.raises(CatalogError):
        catalog.drop(["a", "nobody"])
    assert list(catalog.queries) == list("abcd")
    version = catalog.version
    catalog.drop(["a", "c", "a"])
    assert list(catalog.queries) == ["b", "d"] and catalog.version == version + 1
    catalog.drop([])
    assert catalog.version == version + 1


def test_a_name_too_long_for_a_folder_is_refused(tmp_path: Path) -> None:
    catalog = Catalog(Disk(tmp_path), Config())
    catalog.create(Relation("ü" * 40, "parquet:s", RELATION.fields, "ts"))
    with pytest.raises(CatalogError, match="too long for a folder"):
        catalog.create(Relation("ü" * 50, "parquet:s", RELATION.fields, "ts"))
