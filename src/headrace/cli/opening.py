"""Where the home is, and opening an engine on it.  Opening starts no Spark: running does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.errors import HomeError
from headrace.spark_settings import parse_pairs

if TYPE_CHECKING:
    from headrace.engine import Engine

DEFAULT_HOME = Path("race")


def _folder(home: Path) -> Path:
    from headrace.runtime.home import check_place

    check_place(home)
    return home


HomeOption = Annotated[
    Path,
    typer.Option(
        "--home",
        "-H",
        callback=_folder,
        envvar="HEADRACE_HOME",
        help="The home folder.",
        metavar="DIR",
        show_default="./race",
    ),
]


ConfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        help="A setting of Spark, e.g. spark.executor.memory=2g; may be repeated.",
        metavar="KEY=VALUE",
    ),
]


@contextmanager
def opened(
    home: Path,
    *,
    make: bool = False,
    restart: int | None = None,
    conf: Sequence[str] | None = None,
) -> Iterator[Engine]:
    """An engine on the home, closed afterwards; only with `make` is a missing home made.
    `restart`: instead of the setting; `conf`: settings of Spark, beside those of the environment."""
    if not make and not home.is_dir():
        raise HomeError(
            "there is no home folder here",
            value=home,
            hint="`headrace init` or `headrace run FILE.sql` makes one; --home DIR names another",
        )
    engine = open_engine(home, restart, conf or ())
    try:
        yield engine
    finally:
        engine.close()


def open_engine(home: Path, restart: int | None = None, conf: Sequence[str] = ()) -> Engine:
    from headrace.config import Config
    from headrace.engine import Engine

    config = Config.from_environment()
    if restart is not None:
        config = replace(config, restart=restart)
    if conf:
        config = replace(config, spark={**config.spark, **parse_pairs(conf, "--conf")})
    return Engine(home, config=config)
