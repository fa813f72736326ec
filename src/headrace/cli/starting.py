"""`init`: a home, a few minutes of sample trades, and a script that runs on them at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.opening import DEFAULT_HOME, opened
from headrace.cli.show import console, note
from headrace.errors import HeadraceError

SCRIPT = "queries.sql"
DATA = Path("data") / "trades"
FILES = 5
SECONDS_PER_FILE = 60
ROWS_PER_SECOND = 200
SEED = 7

EXAMPLE = """\
-- Run it:  headrace run {script}
-- See it:  headrace list;  headrace explain;  headrace watch vwap
-- Any other Spark SQL over one stream may stand here too.

CREATE STREAM trades (symbol STRING, price DOUBLE, qty INT, side STRING, venue STRING, ts TIMESTAMP)
USING parquet OPTIONS (path '{data}', time 'ts', late '2 seconds');

CREATE QUERY vwap AS
SELECT symbol, sum(price * qty) / sum(qty) AS vwap, count(*) AS trades
FROM trades GROUP BY symbol, window(ts, '1 minute', '20 seconds');

CREATE QUERY big_buys AS
SELECT venue, count(*) AS n, max(price * qty) AS largest
FROM trades WHERE side = 'BUY' AND qty > 500
GROUP BY venue, window(ts, '2 minutes') HAVING count(*) > 3;

CREATE QUERY calm AS
SELECT avg(price) AS mean_price, stddev(price) AS spread
FROM trades WHERE symbol LIKE 'A%' GROUP BY window(ts, '90 seconds', '1 minute');
"""


def init(
    folder: Annotated[
        Path, typer.Argument(help="Where; made if it is missing.", metavar="[DIR]")
    ] = Path(),
) -> None:
    """Make a home, sample data and an example script."""
    script = folder / SCRIPT
    if script.exists():
        raise HeadraceError(
            f"{SCRIPT} is there already", value=script, hint="choose another folder", code="INIT"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with opened(folder / DEFAULT_HOME, make=True):
        pass
    write_trades(folder / DATA)
    script.write_text(EXAMPLE.format(script=SCRIPT, data=DATA.as_posix()), encoding="utf-8")
    where = "" if folder.resolve() == Path.cwd() else f"cd {folder} && "
    console().print(f"Made {folder / DEFAULT_HOME}, {folder / DATA} and {script}.", markup=False)
    note(f"next: {where}headrace run {SCRIPT}")


def write_trades(folder: Path) -> None:
    import numpy as np

    from headrace.bench.feed import write_file
    from headrace.bench.market import START_US, Market
    from headrace.values import US_PER_S

    market = Market(np.random.default_rng(SEED))
    for number in range(FILES):
        start_us = START_US + number * SECONDS_PER_FILE * US_PER_S
        write_file(folder, number, market.trades(start_us, SECONDS_PER_FILE, ROWS_PER_SECOND))
