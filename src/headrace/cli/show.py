"""How things look: numbers, tables of answers, complaints.  Colour and live display only on a
terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import IO, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.runtime.spark_log import debugging
from headrace.showing import cell

__all__ = [
    "answers_table",
    "caution",
    "complain",
    "console",
    "count",
    "debugging",
    "duration",
    "note",
    "plain_json",
    "several",
    "table",
]

PIPE_WIDTH = 200


def console(*, stderr: bool = False, file: IO[str] | None = None) -> Console:
    """Made anew for each use, so that it follows a redirected stdout; pipes are not cut at 80
    columns."""
    made = Console(stderr=stderr, file=file, highlight=False)
    if not made.is_terminal:
        made.width = PIPE_WIDTH
    return made


def complain(text: str) -> None:
    console(stderr=True).print(Text(text, style="red"), soft_wrap=True)


def caution(text: str) -> None:
    console(stderr=True).print(Text(f"warning: {text}", style="yellow"), soft_wrap=True)


def note(text: str) -> None:
    """Something beside the output proper: it goes to stderr, so that pipes stay clean."""
    console(stderr=True).print(Text(text, style="dim"), soft_wrap=True)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, numbers: Iterable[str] = ()
) -> Table:
    """Columns named in `numbers` are aligned right."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    right = set(numbers)
    for column in columns:
        made.add_column(Text(column), justify="right" if column in right else "left", no_wrap=True)
    for row in rows:
        made.add_row(*(value if isinstance(value, Text) else Text(cell(value)) for value in row))
    return made


def answers_table(rows: Sequence[dict[str, Any]], columns: Sequence[str] | None = None) -> Table:
    names = list(columns if columns is not None else rows[0] if rows else [])
    numbers = [n for n in names if any(isinstance(r.get(n), int | float) for r in rows)]
    return table(names, ([r.get(n) for n in names] for r in rows), numbers=numbers)


def count(number: float) -> str:
    """1,234 · 56.7 k · 12.3 M"""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e5, "k")):
        if abs(number) >= size:
            scale = 1e3 if unit == "k" else size
            return f"{number / scale:,.1f} {unit}"
    return f"{number:,.0f}"


def several(number: int, noun: str) -> str:
    """`1 query`, `2 queries`."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number:,} {noun if number == 1 else plural}"


def duration(seconds: float) -> str:
    """0.45 s · 12 s · 4 min 08 s · 1 h 02 min"""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def plain_json(value: Any) -> Any:
    """`default=` of json.dumps is not asked about floats, so what JSON cannot say becomes text
    here."""
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, dict):
        return {str(k): plain_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(v) for v in value]
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
