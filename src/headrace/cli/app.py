"""The application: which commands there are, and what becomes of an error.

Modules that take long to import (Spark, Arrow, numpy) are imported by the commands that need them,
so that `headrace --help` and `headrace list` answer at once.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

from headrace.cli import (
    benching,
    checking,
    demo,
    migrating,
    prompt,
    queries,
    reading,
    running,
    starting,
    warming,
    watching,
)
from headrace.cli.show import caution, complain, debugging
from headrace.errors import HeadraceError, HeadraceWarning

INTERRUPTED = 130


@contextmanager
def cautioning() -> Iterator[None]:
    """Our warnings are a line each; Python would print the line of our own code that gave them."""
    with warnings.catch_warnings():
        before = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, HeadraceWarning):
                caution(str(message))
            else:
                before(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


class Commands(TyperGroup):
    """Formats errors and warnings in one place.  HEADRACE_DEBUG=1 lets them through with their
    traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with cautioning():
                return super().invoke(ctx)
        except HeadraceError as error:
            if debugging():
                raise
            complain(str(error))
            raise typer.Exit(1) from error
        except KeyboardInterrupt as error:
            raise typer.Exit(INTERRUPTED) from error


app = typer.Typer(
    cls=Commands,
    name="headrace",
    help="Thousands of standing queries on one Spark stream for the price of one.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo.demo,
    "init": starting.init,
    "run": running.run,
    "sql": prompt.sql,
    "add": queries.add,
    "drop": queries.drop,
    "list": queries.list_queries,
    "explain": queries.explain,
    "read": reading.read,
    "watch": watching.watch,
    "doctor": checking.doctor,
    "warm": warming.warm,
    "migrate": migrating.migrate,
    "bench": benching.bench,
}
for name, command in COMMANDS.items():
    app.command(name)(command)


def _show_version(asked: bool) -> None:
    if asked:
        from headrace import __version__

        typer.echo(f"headrace {__version__}")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", is_eager=True, callback=_show_version
        ),
    ] = False,
) -> None:
    """Thousands of standing queries on one Spark stream for the price of one."""


def main() -> None:
    """Entry point.  An error nobody foresaw is one line too, unless HEADRACE_DEBUG=1."""
    try:
        app()
    except Exception as error:
        if debugging():
            raise
        complain(
            f"{type(error).__name__}: {error}\n  next:    HEADRACE_DEBUG=1 shows where it came from"
        )
        sys.exit(1)
