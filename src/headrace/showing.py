"""How answers and lists of facts show themselves: aligned text at a prompt, an HTML table in a
notebook."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from html import escape
from typing import Any, TypeVar

ROWS_SHOWN = 50
CELL_WIDTH_MAX = 60
T = TypeVar("T")


class Listing(list[T]):
    """A list of dataclasses that prints as a table; it is a list in all else."""

    def __repr__(self) -> str:
        rows = [
            {name: cell(value) for name, value in row.items()} for row in _rows(self[:ROWS_SHOWN])
        ]
        if not rows:
            return "[]"
        widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in rows[0]}
        lines = [
            {name: name for name in widths},
            {name: "─" * width for name, width in widths.items()},
            *rows,
        ]
        text = [
            "  ".join(line[name].ljust(width) for name, width in widths.items()).rstrip()
            for line in lines
        ]
        return "\n".join([*text, *_more(len(self))])

    def _repr_html_(self) -> str:
        return html_table(_rows(self[:ROWS_SHOWN])) + "".join(
            f"<p>{escape(line)}</p>" for line in _more(len(self))
        )


def html_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Nothing in it is markup but the table's own."""
    if not rows:
        return "<p>nothing yet</p>"
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    lines = ["".join(f"<td>{escape(cell(value))}</td>" for value in row.values()) for row in rows]
    return f"<table><tr>{head}</tr>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def cell(value: Any) -> str:
    """One value, for people, on one line."""
    if value is None:
        return "null"
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(" ")
        return text.rstrip("0") if value.microsecond else text
    if isinstance(value, float):
        return (
            f"{value:,.4f}".rstrip("0").rstrip(".")
            if math.isfinite(value) and abs(value) < 1e15
            else repr(value)
        )
    if isinstance(value, dict):
        return ", ".join(f"{k} {cell(v)}" for k, v in value.items())
    text = str(value)
    return text if len(text) <= CELL_WIDTH_MAX else text[: CELL_WIDTH_MAX - 1] + "…"


def _rows(items: Iterable[Any]) -> list[dict[str, Any]]:
    return [{f.name: getattr(item, f.name) for f in fields(item) if f.repr} for item in items]


def _more(count: int) -> list[str]:
    return [f"… {count - ROWS_SHOWN:,} more"] if count > ROWS_SHOWN else []
