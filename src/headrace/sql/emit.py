"""Spark SQL from the bound tree: fully parenthesised, names in backquotes, constants that cannot be
misread.

This is the only text Spark is given.  Strings are escaped so that Spark's parser sees exactly their
characters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from headrace.quoting import quote_name, quote_text
from headrace.sql.functions import AGGREGATES, SCALARS
from headrace.sql.patterns import ESCAPE, like_regex
from headrace.sql.query import Query
from headrace.sql.tree import FILTERED, Aggregate, Bound, Call, Column, Expr, Key, Literal
from headrace.values import BOOLEAN, DATE, DOUBLE, FLOAT, INTERVAL, STRING, Relation, Window

_SUFFIX = {"tinyint": "Y", "smallint": "S", "int": "", "bigint": "L"}


def emit(
    expr: Expr,
    *,
    keys: Sequence[str] = (),
    bounds: Sequence[str] = ("window.start", "window.end"),
    sides: Sequence[str] = ("", ""),
) -> str:
    """Spark SQL of an expression; `keys` is the SQL of the group keys, `bounds` that of the
    window's; `sides` is what stands before the columns of each relation."""
    if isinstance(expr, Column):
        return sides[expr.side] + quote_name(expr.name)
    if isinstance(expr, Literal):
        return _literal(expr)
    if isinstance(expr, Key):
        return keys[expr.index]
    if isinstance(expr, Bound):
        return _bound(expr, bounds)
    given, condition = _unfiltered(expr) if isinstance(expr, Aggregate) else (expr.args, None)
    args = [emit(arg, keys=keys, bounds=bounds, sides=sides) for arg in given]
    if isinstance(expr, Aggregate):
        assert expr.op in AGGREGATES
        if expr.op == "mode" and not expr.distinct:
            # the least of equals, as where it is shared; Spark would take any, another each time
            args.append("true")
        text = f"{expr.op}({'DISTINCT ' if expr.distinct else ''}{', '.join(args) or '*'})"
        return (
            text if condition is None else f"{text} FILTER (WHERE {emit(condition, sides=sides)})"
        )
    return _call(expr, args)


def _unfiltered(expr: Aggregate) -> tuple[tuple[Expr, ...], Expr | None]:
    """The arguments as they were written, and the condition of FILTER.

    Spark plans FILTER other than CASE: where no row can pass it leaves out the aggregate, and what
    might fail."""
    condition = next(
        (a.args[0] for a in expr.args if isinstance(a, Call) and a.op == FILTERED), None
    )
    return tuple(
        a.args[1] if isinstance(a, Call) and a.op == FILTERED else a for a in expr.args
    ), condition


def _bound(expr: Bound, bounds: Sequence[str]) -> str:
    start, end = bounds
    if expr.which == "window":
        return (
            "window"
            if start == "window.start" and end == "window.end"
            else f"named_struct('start', {start}, 'end', {end})"
        )
    return start if expr.which == "start" else end


def _call(expr: Call, args: list[str]) -> str:
    if expr.op in ("cast", "try_cast"):
        return f"{expr.op}({args[0]} AS {expr.type})"
    if expr.op == "case":
        arms = " ".join(f"WHEN {args[i]} THEN {args[i + 1]}" for i in range(0, len(args) - 1, 2))
        return f"(CASE {arms} ELSE {args[-1]} END)"
    if expr.op == "in":
        return f"({args[0]} IN ({', '.join(args[1:])}))"
    if expr.op in ("like", "ilike"):
        return _like(expr, args)
    if expr.op == "negate" and isinstance(expr.args[0], Literal):
        # without the inner parentheses it is a literal, and not rounded to 34 digits
        return f"(- ({args[0]}))"
    template = SCALARS[expr.op].sql
    return template.format(*args) if template else f"{expr.op}({', '.join(args)})"


def _like(expr: Call, args: list[str]) -> str:
    pattern, escape = expr.args[1], expr.args[2] if len(args) == 3 else Literal(ESCAPE, STRING)
    assert isinstance(pattern, Literal)
    assert isinstance(escape, Literal)
    regex = None if pattern.value is None else like_regex(str(pattern.value), str(escape.value))
    if regex is None:
        return f"({args[0]} {expr.op.upper()} {' ESCAPE '.join(args[1:])})"
    if expr.op == "ilike":  # what Spark makes of it: LIKE of both in lower case
        return f"(lower({args[0]}) RLIKE lower({quote_text(regex)}))"
    return f"({args[0]} RLIKE {quote_text(regex)})"


def _literal(literal: Literal) -> str:
    value, kind = literal.value, literal.type
    if value is None:
        return "NULL" if kind.name == "void" else f"CAST(NULL AS {kind})"
    if kind == STRING:
        return quote_text(str(value))
    if kind == BOOLEAN:
        return str(value).upper()
    if kind in (DOUBLE, FLOAT):
        return _fraction(float(value), "D" if kind == DOUBLE else "F")
    if kind.is_integral:
        return f"{value}{_SUFFIX[kind.name]}"
    if kind.is_time:
        return f"{'DATE' if kind == DATE else kind.name.upper()} {quote_text(str(value))}"
    if kind == INTERVAL:
        return _interval(int(value))
    assert kind.name == "decimal"
    return f"{value}BD"


def _fraction(value: float, suffix: str) -> str:
    if math.isnan(value) or math.isinf(value):
        word = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return f"CAST({quote_text(word)} AS {'DOUBLE' if suffix == 'D' else 'FLOAT'})"
    return f"{value!r}{suffix}"


def _interval(us: int) -> str:
    sign = "-" if us < 0 else ""
    seconds, micros = divmod(abs(us), 1_000_000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    day, hour = divmod(hours, 24)
    length = f"{sign}{day} {hour:02}:{minute:02}:{second:02}.{micros:06}"
    return f"INTERVAL {quote_text(length)} DAY TO SECOND"


def emit_query(query: Query, relation: Relation, view: str) -> str:
    """The whole SELECT over a temp view: what plain Spark runs, and what the tests compare with."""
    keys = [emit(key) for key in query.keys]
    bounds = _bounds(query.window)
    outputs = [
        f"{emit(o.expr, keys=keys, bounds=bounds)} AS {quote_name(o.name)}" for o in query.outputs
    ]
    names = {o.name.lower() for o in query.outputs}
    groups = list(keys)
    source = quote_name(view)
    if query.window is not None:
        assert relation.time is not None
        shown = zip(("window_start", "window_end"), bounds, strict=True)
        outputs += [f"{sql} AS {name}" for name, sql in shown if name not in names]
        groups.append(_window(query.window, relation.time))
        source = _windowed_source(query.window, relation.time, source)
    parts = [f"SELECT {', '.join(outputs)}", f"FROM {source}"]
    if query.where is not None:
        parts.append(f"WHERE {emit(query.where)}")
    if groups:
        parts.append(f"GROUP BY {', '.join(groups)}")
    if query.having is not None:
        parts.append(f"HAVING {emit(query.having, keys=keys, bounds=bounds)}")
    return " ".join(parts)


def emit_join(query: Query, views: Sequence[str]) -> str:
    """The whole SELECT over two views: what Spark's batch SQL answers, and what the tests compare
    with."""
    sides = ("l.", "r.")
    outputs = ", ".join(
        f"{emit(o.expr, sides=sides)} AS {quote_name(o.name)}" for o in query.outputs
    )
    where = "" if query.where is None else f" WHERE {emit(query.where, sides=sides)}"
    return f"SELECT {outputs} FROM {quote_name(views[0])} AS l CROSS JOIN {quote_name(views[1])} AS r{where}"


def _window(window: Window, time: str) -> str:
    range_us = max(window.range_us, window.slide_us) if _has_gaps(window) else window.range_us
    lengths = ", ".join(
        quote_text(f"{us} microseconds") for us in (range_us, window.slide_us, window.offset_us)
    )
    return f"window({quote_name(time)}, {lengths})"


def _has_gaps(window: Window) -> bool:
    """Spark refuses a slide longer than the range: we give it the slide as range, and leave the
    gaps out."""
    return window.range_us < window.slide_us


def _bounds(window: Window | None) -> tuple[str, str]:
    if window is None or not _has_gaps(window):
        return "window.start", "window.end"
    return "window.start", f"(window.start + {_interval(window.range_us)})"


def _windowed_source(window: Window, time: str, source: str) -> str:
    if not _has_gaps(window):
        return source
    within = f"pmod(unix_micros({quote_name(time)}) - {window.offset_us}L, {window.slide_us}L)"
    return f"(SELECT * FROM {source} WHERE {within} < {window.range_us}L)"
