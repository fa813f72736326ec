"""`migrate`: a home of an earlier version, as this version has it."""

from __future__ import annotations

import typer

from headrace.cli.opening import DEFAULT_HOME, HomeOption
from headrace.errors import HomeError


def migrate(home: HomeOption = DEFAULT_HOME) -> None:
    """Bring a home of an earlier version to the present format; the old one stays beside it."""
    from headrace.migration.homes import migrate as migrated

    if not home.is_dir() and not home.with_name(f"{home.name}.migrating").is_dir():
        raise HomeError("there is no home folder here", value=home, hint="name one with --home DIR")
    done = migrated(home.absolute())
    for line in done or ["the home has the present format already: nothing to do"]:
        typer.echo(line)
