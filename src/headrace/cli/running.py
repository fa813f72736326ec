"""`run`: register what a file declares, run the home, say what came of it."""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headrace.cli.driving import drain, follow
from headrace.cli.opening import DEFAULT_HOME, ConfOption, HomeOption, opened
from headrace.cli.script import Script
from headrace.cli.show import console, count, duration, note, several
from headrace.errors import CatalogError, HeadraceError

if TYPE_CHECKING:
    from headrace.cli.tally import Tally
    from headrace.engine import Engine
    from headrace.sql.statements import Statement

QUERIES_SHOWN = 15
INTERRUPTED = 130
RESTARTS = 10  # with the pauses between them, some six minutes


def run(
    file: Annotated[
        Path | None, typer.Argument(help="A .sql file; without, what the home holds.")
    ] = None,
    keep_going: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep going until Ctrl-C.")
    ] = False,
    restarts: Annotated[
        int,
        typer.Option(
            min=0,
            envvar="HEADRACE_RESTART",
            help="With --follow: how often in a row Spark is started again if it dies.",
        ),
    ] = RESTARTS,
    conf: ConfOption = None,
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Register what FILE declares, run everything that is there, and print a summary."""
    statements = () if file is None else read_script(file)
    with opened(
        home, make=file is not None, restart=restarts if keep_going else None, conf=conf
    ) as engine:
        Script(engine, lambda: _drain_quietly(engine)).carry_out(statements)
        if not engine.queries():
            raise CatalogError(
                "there is nothing to run",
                value=home,
                hint="CREATE QUERY in a file, or headrace add",
            )
        began_s = monotonic()
        tally, whole = (follow(engine), True) if keep_going else drain(engine)
        show_summary(engine, tally, monotonic() - began_s)
    if not whole:
        raise typer.Exit(INTERRUPTED)


def read_script(file: Path) -> tuple[Statement, ...]:
    from headrace.config import Config
    from headrace.sql.statements import parse_script

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise HeadraceError(
            "cannot read the script", value=f"{file}: {reason}", code="SCRIPT"
        ) from error
    return parse_script(text, Config.from_environment())


def _drain_quietly(engine: Engine) -> None:
    _, whole = drain(engine)
    if not whole:
        raise KeyboardInterrupt


def show_summary(engine: Engine, tally: Tally, seconds: float) -> None:
    out = console()
    if not tally.rounds:
        note("nothing new to read: every row that is there has been answered")
    else:
        rate = tally.rows / tally.busy_s if tally.busy_s else 0.0
        out.print(
            f"{several(tally.rounds, 'round')}, {count(tally.rows)} rows in {duration(seconds)}"
            f" ({count(rate)} rows/s while running), {count(tally.answers)} new answers"
        )
        for number, what in (
            (tally.late, "late rows left out"),
            (tally.bad, "rows did not fit the schema"),
        ):
            if number:
                out.print(Text(f"{number:,} {what}", style="yellow"))
    _show_queries(engine)


def _show_queries(engine: Engine) -> None:
    from headrace.cli.queries import show_queries

    infos = engine.queries()
    trouble = [info for info in infos if info.state != "live"]
    shown = (trouble + [info for info in infos if info.state == "live"])[:QUERIES_SHOWN]
    show_queries(shown)
    if len(infos) > len(shown):
        note(f"… and {len(infos) - len(shown):,} more: headrace list --all")
    if shown:
        note(f"answers: headrace watch {shown[-1].name}")
