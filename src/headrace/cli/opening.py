"""Where the home is, and opening an engine on it.  Opening starts no Spark: running does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.errors import HomeError

if TYPE_CHECKING:
    from headrace.engine import Engine

DEFAULT_HOME = Path("race")

HomeOption = Annotated[
    Path,
    typer.Option(
        "--home",
        "-H",
        envvar="HEADRACE_HOME",
        help="The home folder.",
        metavar="DIR",
        show_default="./race",
    ),
]


@contextmanager
def opened(home: Path, *, make: bool = False, restart: int | None = None) -> Iterator[Engine]:
    """An engine on the home, closed afterwards; only with `make` is a missing home made.
    `restart`: instead of the setting."""
    if not make and not home.is_dir():
        raise HomeError(
            "there is no home folder here",
            value=home,
            hint="`headrace init` or `headrace run FILE.sql` makes one; --home DIR names another",
        )
    engine = open_engine(home) if restart is None else open_engine(home, restart)
    try:
        yield engine
    finally:
        engine.close()


def open_engine(home: Path, restart: int | None = None) -> Engine:
    from headrace.config import Config
    from headrace.engine import Engine

    config = Config.from_environment()
    return Engine(home, config=config if restart is None else replace(config, restart=restart))
