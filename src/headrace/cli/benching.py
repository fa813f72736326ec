"""`bench`: run one benchmark, show its figures beside the published ones, keep them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.driving import telling
from headrace.cli.hush import hushed
from headrace.cli.show import console, debugging, note, plain_json, table

if TYPE_CHECKING:
    from headrace.bench.report import Report, Run


def bench(
    name: Annotated[
        str, typer.Argument(help="Which benchmark; `list` names them all.", metavar="NAME")
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="A smaller form, done within two minutes.")
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the figures as JSON.", metavar="FILE")
    ] = None,
) -> None:
    """Run a benchmark and print its figures beside the published ones."""
    from headrace.bench.report import benchmark, benchmarks

    if name == "list":
        for known, about in benchmarks().items():
            typer.echo(f"{known:12} {about}")
        return
    run = benchmark(name)
    report = _measured(run, quick)
    show(report)
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(
            json.dumps(plain_json(report.flat()), indent=2) + "\n", encoding="utf-8"
        )
        note(f"figures: {json_file}")


def _measured(run: Run, quick: bool) -> Report:
    if debugging():
        return run(quick, note)
    with hushed() as stderr, telling(console(file=stderr)) as tell:
        return run(quick, tell)


def show(report: Report) -> None:
    out = console()
    out.print(report.title, style="bold", markup=False)
    rows = [
        (f.name, f"{f.value:,.6g} {f.unit}".strip(), f.published or "—", f.note)
        for f in report.figures
    ]
    out.print(table(("figure", "ours", "published", "note"), rows, numbers=("ours",)))
    if report.plot is not None:
        note(report.plot.told())
