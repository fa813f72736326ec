"""`read`: the present answer of a query, whole."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from headrace.cli.opening import DEFAULT_HOME, HomeOption, opened
from headrace.cli.show import answers_table, console, note, plain_json, several
from headrace.cli.watching import Format


def read(
    query: Annotated[str, typer.Argument(help="Name of a query.", metavar="NAME")],
    limit: Annotated[
        int | None, typer.Option(min=1, help="Show so many rows at most.", metavar="N")
    ] = None,
    layout: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.table,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Show a query's present answer: Spark's answer over the rows committed so far, of windows
    those that are closed."""
    from headrace.evaluation.python_rows import python_rows

    with opened(home) as engine:
        found = engine.read(query)
    rows = list(python_rows(found.slice(0, limit)))
    if as_json or layout is Format.json:
        for row in rows:
            typer.echo(json.dumps(plain_json(row)))
        return
    if not rows:
        note("no rows: `headrace run` runs the home; a window answers when it is closed")
        return
    console().print(answers_table(rows, found.column_names))
    if len(rows) < found.num_rows:
        note(f"first {len(rows):,} of {several(found.num_rows, 'row')}")
