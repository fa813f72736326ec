"""`add`, `drop`, `list`, `explain`: the catalog.  None of them starts Spark."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headrace.cli.opening import DEFAULT_HOME, HomeOption, opened
from headrace.cli.show import console, note, several, table

if TYPE_CHECKING:
    from headrace.cost_attribution import StreamCost
    from headrace.reading import QueryInfo

LIST_MAX = 50


def add(
    sql: Annotated[
        str, typer.Argument(help="A SELECT; - reads it from standard input.", metavar="SQL")
    ],
    name: Annotated[
        str | None, typer.Option("--name", "-n", help="Its name; one is made up without.")
    ] = None,
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Register a standing query; it takes effect at the next round."""
    text = sys.stdin.read() if sql == "-" else sql
    with opened(home) as engine:
        typer.echo(engine.add(text.strip().rstrip(";"), name=name))


def drop(
    names: Annotated[list[str], typer.Argument(help="Names of queries.", metavar="NAME…")],
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Drop standing queries; they stop at the next round."""
    with opened(home) as engine:
        for name in names:
            engine.drop(name)
            note(f"dropped {name}")


def list_queries(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help=f"All, not only the first {LIST_MAX}.")
    ] = False,
    cost: Annotated[
        bool, typer.Option("--cost", help="What each costs a round, dearest first.")
    ] = False,
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """List the standing queries."""
    if cost:
        _list_costs(as_json, everything, home)
        return
    with opened(home) as engine:
        infos = engine.queries()
    if as_json:
        typer.echo(json.dumps([_described(info) for info in infos], indent=2))
        return
    shown = infos if everything else infos[:LIST_MAX]
    show_queries(shown)
    if len(shown) < len(infos):
        note(f"… and {len(infos) - len(shown):,} more: headrace list --all")


def _list_costs(as_json: bool, everything: bool, home: Path) -> None:
    with opened(home) as engine:
        costs = engine.costs()
    if as_json:
        typer.echo(json.dumps([asdict(cost) for cost in costs], indent=2))
        return
    if not costs:
        note("no round has been committed yet: headrace run")
    for stream in costs:
        show_costs(stream, None if everything else LIST_MAX)


def show_costs(stream: StreamCost, limit: int | None) -> None:
    """The dearest first; a last line with the sum, beside what was measured."""
    shown, rest = stream.queries[:limit], stream.queries[len(stream.queries[:limit]) :]
    total_s = sum(q.seconds for q in stream.queries)
    rows = [
        (
            q.name,
            sharing(q.family),
            "live" if q.is_live else "gone",
            _count(q.answers),
            f"{1e3 * q.seconds:,.4f}",
            f"{_share(q.seconds, total_s):.2%}",
            " ".join(q.sql.split()),
        )
        for q in shown
    ]
    if rest:
        rest_s = sum(q.seconds for q in rest)
        rows.append(
            (
                f"… {len(rest):,} more",
                "",
                "",
                f"{sum(q.answers or 0 for q in rest):,}",
                f"{1e3 * rest_s:,.4f}",
                f"{_share(rest_s, total_s):.2%}",
                "headrace list --cost --all",
            )
        )
    last = stream.first_round + stream.rounds - 1
    console().print(
        f"{stream.stream}: rounds {stream.first_round} to {last}", style="bold", markup=False
    )
    columns = ("name", "family", "state", "answers", "ms a round", "share", "query")
    console().print(table(columns, rows, numbers=("answers", "ms a round", "share")))
    console().print(
        f"sum of all {len(stream.queries):,}: {1e3 * total_s:,.3f} ms a round; "
        f"measured: {1e3 * stream.measured_s:,.3f} ms a round",
        markup=False,
    )


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def explain(
    query: Annotated[
        str | None, typer.Argument(help="A query; the whole plan without.", metavar="[NAME]")
    ] = None,
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Show what a query shares and costs, or the whole plan."""
    with opened(home) as engine:
        typer.echo(engine.explain(query).rstrip("\n"))


def show_queries(infos: Sequence[QueryInfo]) -> None:
    """Also for SHOW QUERIES of a script or the prompt."""
    if not infos:
        note('no queries yet: headrace add "SELECT …", or headrace run FILE.sql')
        return
    columns = ("name", "stream", "family", "state", "answers", "query")
    rows = [
        (i.name, i.stream, sharing(i.family), _state(i), _count(i.answers), " ".join(i.sql.split()))
        for i in infos
    ]
    console().print(table(columns, rows, numbers=("answers",)))
    trouble = [info for info in infos if info.state != "live"]
    for info in trouble[:10]:
        console().print(Text(f"{info.name}: {info.reason}", style="red"), soft_wrap=True)
    if len(trouble) > 10:
        note(f"{several(len(trouble), 'query')} in trouble in all")


def sharing(family: str) -> str:
    """The family as people think of it."""
    return "plain" if family == "plain" else f"shared ({family})"


def _count(answers: int | None) -> str:
    """Those that are made when somebody reads them are not counted."""
    return "on reading" if answers is None else f"{answers:,}"


def _state(info: QueryInfo) -> Text:
    return Text(info.state, style="green" if info.state == "live" else "red")


def _described(info: QueryInfo) -> dict[str, object]:
    names = ("name", "stream", "family", "state", "reason", "answers", "sql")
    return {name: getattr(info, name) for name in names}
