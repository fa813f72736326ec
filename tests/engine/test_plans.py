"""EXPLAIN keeps its plan while queries come and go, and says what a plan made anew says."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

import headrace
from headrace.bench import market
from headrace.catalog.catalog import Catalog
from headrace.config import Config
from headrace.disk import Disk
from headrace.explaining import explain_all, explain_one, infos
from headrace.families.windows.figures import WindowsFigures
from headrace.planning import Plans
from headrace.runtime.statistics import RoundStats
from headrace.sql.bind import bind
from headrace.sql.query import Query
from headrace.sql.schema import parse_schema
from headrace.values import Relation

CONFIG = Config()
FIELDS = parse_schema(market.SCHEMA)
RELATIONS = {
    name: Relation(name, f"parquet:{name}", FIELDS, "ts", 2_000_000) for name in ("trades", "other")
}


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = Catalog(Disk(tmp_path), CONFIG)
    for relation in RELATIONS.values():
        made.create(relation)
    return made


def bound(name: str, sql: str) -> Query:
    return bind(sql, RELATIONS, name=name, config=CONFIG)


def draw(r: Random, name: str) -> Query:
    """A window query, one of a crowd on the price, a filter, a join, or one that nobody shares."""
    low = r.randrange(40)
    window = f"window(ts, '{r.choice([10, 20, 30, 60])} seconds', '{r.choice([5, 10])} seconds')"
    texts = {
        "any": next(iter(market.queries(np.random.default_rng(r.getrandbits(32)), 1).values())),
        "crowd": f"SELECT symbol, sum(qty) AS n FROM trades WHERE price > {low} GROUP BY symbol, {window}",
        "two": f"SELECT sum(qty) AS n FROM trades WHERE price > {low} AND qty < {low + 9} GROUP BY {window}",
        "sketch": f"SELECT median(qty) AS m FROM trades GROUP BY side, {window}",
        "filter": f"SELECT price FROM trades WHERE price BETWEEN {low} AND {low + 3}",
        "join": f"SELECT t.qty AS a FROM trades t JOIN other o ON o.price - t.price BETWEEN {low} AND {low + 1}",
        "plain": "SELECT symbol, count(*) AS n FROM other GROUP BY symbol",
    }
    return bound(name, texts[r.choice(["crowd", *texts])])


def test_a_plan_that_follows_changes_is_one_made_anew(catalog: Catalog, seed: int) -> None:
    r, plans = Random(seed), Plans(catalog)
    for step in range(40):
        names = list(catalog.queries)
        match r.randrange(4) if len(names) > 3 else 0:
            case 0 | 1:
                catalog.add([draw(r, f"q{step}_{i}") for i in range(r.randrange(1, 12))])
            case 2:
                catalog.drop(
                    r.sample(names, r.randrange(1, len(names)))
                    if r.random() < 0.3
                    else [r.choice(names)]
                )
            case _:
                catalog.quarantine({catalog.query(r.choice(names)).id: "why"})
        for name in r.sample(list(catalog.queries), min(3, len(catalog.queries))):
            one = catalog.query(name)
            assert explain_one(one, catalog, {}, plans) == explain_one(one, catalog, {})
        kept, anew = (explain_all(catalog, {}, own) for own in (plans, None))
        assert sorted(kept.splitlines()) == sorted(anew.splitlines())
        assert infos(catalog, plans, {}) == infos(catalog, Plans(catalog), {})


@pytest.mark.parametrize("next_united", [True, False])
def test_the_cuts_shown_are_those_of_the_next_round(catalog: Catalog, next_united: bool) -> None:
    """What a round has decided of how the next is cut is committed with it: the round itself may
    have been cut the other way."""
    texts = {
        key: f"SELECT {key}, sum(price) AS p FROM trades GROUP BY {key}, window(ts, '10 seconds')"
        for key in ("symbol", "side")
    }
    catalog.add([bound(name, sql) for name, sql in texts.items()])
    own = WindowsFigures(groupings=2 if next_united else 1, next_united=next_united)
    stats = RoundStats("trades", 3, 20_000, 0, 0, 0, 2, 0, 0, {"total": 1.0})
    told = json.loads(json.dumps(asdict(replace(stats, figures={"windows": asdict(own)}))))
    text = explain_all(catalog, {"trades": [told]})
    shown = "1 grouping," if next_united else "2 groupings,"
    assert shown in text


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_one_of_100_000_is_explained_within_a_second(tmp_path: Path) -> None:
    """Of windows, a crowd of constants, filters and joins: at once after they came, and after one
    more came."""
    eng = headrace.Engine(tmp_path / "race", config=Config.of(queries_max=200_000))
    for name in RELATIONS:
        eng.create_stream(name, f"parquet:{tmp_path}", schema=market.SCHEMA, time="ts")
    texts = {
        f"w{i}": sql
        for i, sql in enumerate(market.queries(np.random.default_rng(1), 25_000).values())
    }
    for i in range(25_000):
        c = f"{i / 7:.3f}"
        texts |= {
            f"c{i}": f"SELECT sum(qty) AS n FROM trades WHERE price > {c} GROUP BY window(ts, '10 seconds')",
            f"f{i}": f"SELECT qty FROM trades WHERE price BETWEEN {c} AND {i / 7 + 1:.3f}",
            f"j{i}": f"SELECT t.qty AS a FROM trades t JOIN other o ON o.price - t.price BETWEEN {c} AND 9999",
        }
    eng.add_many(dict(list(texts.items())[-6:]))
    eng.explain()  # compiles what estimates joins, once for a machine
    eng.drop_many(list(texts)[-6:])
    eng.add_many(texts)
    took = {name: explained_s(eng, name) for name in ("w9", "c9", "f9", "j9")}
    eng.add(
        "SELECT sum(qty) AS n FROM trades WHERE price > 3.5 GROUP BY window(ts, '10 seconds')",
        name="more",
    )
    took |= {f"{name}, after a change": explained_s(eng, name) for name in ("more", "w8", "j8")}
    began = time.process_time()
    assert len(eng.queries()) == 100_001
    took["all, listed"] = time.process_time() - began
    print({name: round(seconds, 3) for name, seconds in took.items()})
    assert max(took.values()) < 1.0, took


def explained_s(eng: headrace.Engine, name: str) -> float:
    began = time.process_time()
    assert eng.explain(name).startswith(f"query {name}\n")
    return time.process_time() - began
