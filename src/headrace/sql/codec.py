"""Bound queries as data for the catalog's log, and back, without parsing SQL again.

Each expression is one string of nested lists.  Thousands of queries repeat the same predicates,
keys and aggregates, so decoding is remembered per string: a repeated expression costs one lookup,
and is one object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from headrace.errors import CatalogError
from headrace.records import INT_MAX
from headrace.sql.query import Output, Query
from headrace.sql.tree import Aggregate, Bound, Call, Column, Expr, Key, Literal
from headrace.values import Type, Window

REMEMBERED_MAX = 200_000


def encode(query: Query) -> dict[str, Any]:
    """A query as JSON-able data."""
    window = query.window
    return {
        "name": query.name,
        "sql": query.sql,
        "source": query.source,
        "outputs": [[output.name, encode_expr(output.expr)] for output in query.outputs],
        "where": None if query.where is None else encode_expr(query.where),
        "keys": [encode_expr(key) for key in query.keys],
        "window": None if window is None else [window.range_us, window.slide_us, window.offset_us],
        "having": None if query.having is None else encode_expr(query.having),
        "grouped": query.grouped,
        "hints": list(query.hints),
        **({} if query.joined is None else {"joined": query.joined}),
    }


def decode(data: Mapping[str, Any]) -> Query:
    """The query that `encode` wrote."""
    try:
        hints, grouped, joined = tuple(data["hints"]), data["grouped"], data.get("joined")
        others = hints if joined is None else (joined, *hints)
        "".join((data["name"], data["sql"], data["source"], *others)).encode()  # all are texts
        if type(grouped) is not bool or any(
            type(data[part]) is not list for part in ("outputs", "keys", "hints")
        ):
            raise ValueError(f"grouped, outputs, keys or hints: {str(data)[:80]}")
        return Query(
            data["name"],
            data["sql"],
            data["source"],
            _outputs(tuple([(name, text) for name, text in data["outputs"]])),
            None if data["where"] is None else decode_expr(data["where"]),
            tuple([decode_expr(text) for text in data["keys"]]),
            None if data["window"] is None else _window(*data["window"]),
            None if data["having"] is None else decode_expr(data["having"]),
            grouped,
            hints,
            joined,
        )
    except (KeyError, TypeError, ValueError, IndexError, RecursionError) as error:
        raise CatalogError(
            "a stored query cannot be read",
            value=f"{type(error).__name__}: {error}",
            hint="the catalog was damaged, or written by another version",
        ) from error


@lru_cache(maxsize=10_000)
def _window(range_us: int, slide_us: int, offset_us: int) -> Window:
    if (
        not all(type(n) is int and abs(n) < INT_MAX for n in (range_us, slide_us, offset_us))
        or min(range_us, slide_us) <= 0
    ):
        raise ValueError(f"not a window: {range_us}, {slide_us}, {offset_us}")
    return Window(range_us, slide_us, offset_us)


def encode_expr(expr: Expr) -> str:
    """An expression as one string."""
    return json.dumps(_lists(expr), ensure_ascii=True, separators=(",", ":"))


def _lists(expr: Expr) -> list[Any]:
    if isinstance(expr, Column):
        return ["column", expr.name, str(expr.type), *([expr.side] if expr.side else [])]
    if isinstance(expr, Literal):
        return ["literal", expr.value, str(expr.type)]
    if isinstance(expr, Key):
        return ["key", expr.index, str(expr.type)]
    if isinstance(expr, Bound):
        return ["bound", expr.which]
    args = [_lists(arg) for arg in expr.args]
    if isinstance(expr, Aggregate):
        return ["aggregate", expr.op, args, str(expr.type), expr.distinct]
    return ["call", expr.op, args, str(expr.type)]


@lru_cache(maxsize=REMEMBERED_MAX)
def decode_expr(text: str) -> Expr:
    """The expression that `encode_expr` wrote."""
    return _build(json.loads(text))


def _build(data: list[Any]) -> Expr:
    match data:
        case ["column", str(name), str(kind)]:
            return Column(name, _type(kind))
        case ["column", str(name), str(kind), 1]:
            return Column(name, _type(kind), 1)
        case ["literal", None | bool() | int() | float() | str() as value, str(kind)]:
            return Literal(value, _type(kind))
        case ["key", int(index), str(kind)]:
            return Key(index, _type(kind))
        case ["bound", "start" | "end" | "window" as which]:
            return Bound(which)
        case ["aggregate", str(op), list(args), str(kind), bool(distinct)]:
            return Aggregate(op, tuple([_build(arg) for arg in args]), _type(kind), distinct)
        case ["call", str(op), list(args), str(kind)]:
            return Call(op, tuple([_build(arg) for arg in args]), _type(kind))
    raise ValueError(f"not an expression: {str(data)[:80]}")


@lru_cache(maxsize=REMEMBERED_MAX)
def _outputs(texts: tuple[tuple[str, str], ...]) -> tuple[Output, ...]:
    "".join([name for name, _ in texts]).encode()  # all are texts
    return tuple([Output(name, decode_expr(text)) for name, text in texts])


@lru_cache(maxsize=1_000)
def _type(text: str) -> Type:
    if not text.startswith("decimal("):
        return Type(text)
    precision, scale = text.removeprefix("decimal(").removesuffix(")").split(",")
    return Type("decimal", int(precision), int(scale))
