"""window(time, range, slide, offset): what it means, and each way to get it wrong."""

from __future__ import annotations

import pytest

from headrace.errors import SQLError
from headrace.sql.bind import bind
from headrace.sql.schema import parse_schema
from headrace.sql.tree import Bound
from headrace.values import Relation, Window
from tests.sql.refusals import bound, refused

MINUTE = 60_000_000


def window(arguments: str) -> Window | None:
    return bound(f"SELECT count(*) FROM trades GROUP BY window(ts, {arguments})").window


@pytest.mark.parametrize(
    ("arguments", "range_m", "slide_m", "offset_m"),
    [
        ("'1 hour'", 60, 60, 0),
        ("'1 hour', '10 minutes'", 60, 10, 0),
        ("'90 minutes', '1 hour', '15 minutes'", 90, 60, 15),
        ("'1 hour 30 minutes'", 90, 90, 0),
        ("'interval 10 minutes'", 10, 10, 0),
        ("INTERVAL 10 MINUTES", 10, 10, 0),
        ("INTERVAL '1' HOUR, INTERVAL '10 minutes'", 60, 10, 0),
        ("'1 DAY', '12 Hours', '-1 hour'", 1440, 720, 660),
        ("'1 hour', '1 hour', '150 minutes'", 60, 60, 30),
        ("'10 minutes', '1 hour'", 10, 60, 0),
        ("'1 week'", 10_080, 10_080, 0),
    ],
)
def test_windows(arguments: str, range_m: int, slide_m: int, offset_m: int) -> None:
    assert window(arguments) == Window(range_m * MINUTE, slide_m * MINUTE, offset_m * MINUTE)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("'1 month'", "no fixed length"),
        ("'2 years'", "no fixed length"),
        ("'1 fortnight'", "unknown unit"),
        ("'hour'", "not a length of time"),
        ("''", "not a length of time"),
        ("'1.5 hours'", "fraction"),
        ("'0 seconds'", "range of a window must be longer"),
        ("'-1 hour'", "'-1 hour'"),
        ("'1 hour', '0 minutes'", "slide of a window must be longer"),
        ("'1 hour', '-10 minutes'", "'-10 minutes'"),
        ("'99999999999999999999 days'", "too long"),
        ("qty", "constant"),
        ("3600", "constant"),
        ("concat('1', ' hour')", "constant"),
        ("'1 hour', '1 hour', '0 s', '1'", "5 arguments"),
    ],
)
def test_bad_lengths(arguments: str, words: str) -> None:
    refused(f"SELECT count(*) FROM trades GROUP BY window(ts, {arguments})", words)


def test_only_the_event_time_has_windows() -> None:
    refused(
        "SELECT 1 FROM trades GROUP BY window(seen, '1 hour')", "which is ts", "seen", at="seen"
    )
    refused("SELECT 1 FROM trades GROUP BY window(qty, '1 hour')", "which is ts", at="qty")
    refused("SELECT 1 FROM trades GROUP BY window(tss, '1 hour')", "unknown column", "ts", at="tss")
    refused("SELECT 1 FROM trades GROUP BY window(CAST(ts AS DATE), '1 hour')", "an expression")
    refused("SELECT 1 FROM stock GROUP BY window(ts, '1 hour')", "is a table", at="ts")
    refused("SELECT 1 FROM trades GROUP BY window(ts)", "range")


def test_a_stream_without_time_has_no_windows() -> None:
    plain = Relation("plain", "x", parse_schema("ts TIMESTAMP, window INT"))
    sql = "SELECT count(*) FROM plain GROUP BY window(ts, '1 hour')"
    with pytest.raises(SQLError, match="has no event time"):
        bind(sql, {"plain": plain}, name="q")
    with pytest.raises(SQLError, match="hides the window"):
        bind(sql, {"plain": Relation("plain", "x", plain.fields, time="ts")}, name="q")
    assert (
        bind("SELECT window + 1 AS w FROM plain", {"plain": plain}, name="q").outputs[0].name == "w"
    )


def test_the_window_may_be_repeated_or_aliased() -> None:
    for sql in (
        "SELECT window(ts, '1 hour') AS w, count(*) FROM trades GROUP BY w",
        "SELECT window(ts, '1 hour') AS w, count(*) FROM trades GROUP BY 1",
        "SELECT window(ts, '60 minutes') AS w, count(*) FROM trades GROUP BY window(trades.ts, '1 hour')",
        "SELECT window AS w, count(*) FROM trades GROUP BY window(ts, '1 hour'), window(ts, '1 hour')",
    ):
        query = bound(sql)
        assert query.window == Window(60 * MINUTE, 60 * MINUTE)
        assert query.keys == ()
        assert query.outputs[0].expr == Bound("window")


def test_fields_of_the_window() -> None:
    query = bound(
        "SELECT window(ts, '1 hour').end AS e FROM trades GROUP BY window(ts, '1 hour') "
        "HAVING window.start > '2024-01-01' AND e < '2025-01-01'"
    )
    assert query.outputs[0].expr == Bound("end")
    refused(
        "SELECT window.middle FROM trades GROUP BY window(ts, '1 hour')",
        "window.start",
        at="window.middle",
    )
    refused(
        "SELECT window(ts, '1 hour').middle FROM trades GROUP BY window(ts, '1 hour')", "start, end"
    )
    refused("SELECT upper(symbol).start FROM trades", "only a window")


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT window(ts, '1 hour') FROM trades", "must be in GROUP BY too"),
        ("SELECT qty FROM trades WHERE window(ts, '1 hour') IS NULL", "must be in GROUP BY too"),
        ("SELECT window.start FROM trades", "GROUP BY window(ts, '1 hour')"),
        ("SELECT window(ts, '2 hours') FROM trades GROUP BY window(ts, '1 hour')", "one window"),
        ("SELECT 1 FROM trades GROUP BY window(ts, '1 hour'), window(ts, '2 hours')", "one window"),
        (
            "SELECT max(window.start) FROM trades GROUP BY window(ts, '1 hour')",
            "inside an aggregate",
        ),
        (
            "SELECT max(window(ts, '1 hour')) FROM trades GROUP BY window(ts, '1 hour')",
            "inside an aggregate",
        ),
        ("SELECT window = window FROM trades GROUP BY window(ts, '1 hour')", "can be compared"),
        ("SELECT window_start FROM trades GROUP BY window(ts, '1 hour')", "unknown column"),
        (
            "SELECT max(qty) AS window_start FROM trades GROUP BY window(ts, '1 hour')",
            "bound of the window",
        ),
        (
            "SELECT window.start AS window_end FROM trades GROUP BY window(ts, '1 hour')",
            "bound of the window",
        ),
        ("SELECT 1 FROM trades GROUP BY window.start", "GROUP BY window(ts, '1 hour')"),
        ("SELECT window(DISTINCT ts, '1 hour') FROM trades GROUP BY 1", "window takes"),
    ],
)
def test_misplaced_windows(sql: str, words: str) -> None:
    refused(sql, words)


def test_the_reserved_names_may_name_the_bounds() -> None:
    query = bound(
        "SELECT window.start AS window_start, window.end AS window_end FROM trades GROUP BY window(ts, '1 hour')"
    )
    assert [o.name for o in query.outputs] == ["window_start", "window_end"]
    assert bound("SELECT qty AS window_start FROM trades").outputs[0].name == "window_start"
