"""`demo`: a market stream, a thousand standing queries, one Spark pipeline — live.

Ends by itself, `seconds` after the first round; Ctrl-C ends it sooner, with the same summary.
Everything lies in a temporary folder that goes when the demo does, unless --home keeps it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.demo_screen import Samples, Screen, show_summary
from headrace.cli.driving import Work, interruptible
from headrace.cli.opening import DEFAULT_HOME, opened
from headrace.cli.script import register
from headrace.cli.show import note, several
from headrace.cli.tally import Tally
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.bench.feed import Feed
    from headrace.engine import Engine

POLL_S = 0.25
FIRST_ROUND_MAX_S = 180.0
DATA = "trades"

SAMPLES = {
    "vwap_of_tax": "SELECT symbol, sum(price * qty) / sum(qty) AS vwap, count(*) AS trades FROM trades "
    "WHERE symbol = 'TAX' GROUP BY symbol, window(ts, '1 minute', '5 seconds')",
    "venue_volume": "SELECT venue, sum(qty) AS volume, avg(price) AS mean_price FROM trades "
    "GROUP BY venue, window(ts, '30 seconds', '10 seconds') HAVING sum(qty) > 1000",
    "wild_symbols": "SELECT symbol, max(price) - min(price) AS spread, stddev(price) AS deviation FROM trades "
    "WHERE side = 'BUY' GROUP BY symbol, window(ts, '20 seconds') HAVING max(price) - min(price) > 1",
}


@dataclass(frozen=True, slots=True)
class Show:
    """What to perform."""

    seconds: int
    queries: int
    seed: int
    rows_per_second: int


def demo(
    seconds: Annotated[int, typer.Option(min=1, help="How long, from the first round.")] = 60,
    queries: Annotated[
        int, typer.Option(min=1, max=100_000, help="How many standing queries.")
    ] = 1_000,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, another market.")] = 7,
    rate: Annotated[
        int, typer.Option(min=100, max=1_000_000, help="Rows per second of event time.")
    ] = 50_000,
    home: Annotated[
        Path | None, typer.Option("--home", "-H", help="Keep everything in DIR.", metavar="DIR")
    ] = None,
) -> None:
    """Watch a thousand standing queries run on one Spark stream."""
    show = Show(seconds, queries, seed, rate)
    with (
        interruptible(),
        _folder(home) as folder,
        opened(folder / DEFAULT_HOME, make=True) as engine,
    ):
        tally, ended_s = perform(show, engine, folder / DATA)
        show_summary(tally, ended_s, engine)
    if home is not None:
        note(f"kept: headrace list --home {home / DEFAULT_HOME}")


def perform(show: Show, engine: Engine, data: Path) -> tuple[Tally, float]:
    """Set the stage, run, and give the tally with the time at which it ended."""
    from headrace.bench.feed import Feed
    from headrace.bench.market import LATE, SCHEMA, TIME

    feed = Feed(data, seed=show.seed, rows_per_second=show.rows_per_second)
    engine.create_stream(
        "trades", f"parquet:{data}?maxFilesPerTrigger=1", schema=SCHEMA, time=TIME, late=LATE
    )
    tally = Tally()
    tally.skip(engine.statistics())
    try:
        with Screen(show.seconds, show.rows_per_second) as screen:
            _start(show, engine, feed, screen)
            _attend(show, engine, feed, tally, screen)
    except KeyboardInterrupt:
        pass
    finally:
        feed.stop()
        engine.stop()  # raises what made the stream fail, if that was the end
    ended_s = monotonic()
    tally.absorb(engine.statistics(), ended_s)
    return tally, ended_s


def _start(show: Show, engine: Engine, feed: Feed, screen: Screen) -> None:
    """Queries are registered and files are written while Spark starts."""
    register(engine, _samples(show))
    engine.prepare()
    work, began_s = Work(lambda: _start_all(show, engine, feed)), monotonic()
    told = f"Spark starts, {several(show.queries, 'distinct window query')} …"
    try:
        while not work.wait(POLL_S):
            screen.prepare(f"{told} {monotonic() - began_s:.0f} s")
    finally:
        work.wait(FIRST_ROUND_MAX_S)  # nothing is begun after it has been stopped
    work.finish()


def _start_all(show: Show, engine: Engine, feed: Feed) -> None:
    register(engine, choose(show))
    feed.start()
    engine.start()


def _samples(show: Show) -> dict[str, str]:
    return dict(list(SAMPLES.items())[: show.queries])


def choose(show: Show) -> dict[str, str]:
    """The samples that are shown, and as many others as make up the number."""
    import numpy as np

    from headrace.bench import market

    samples = _samples(show)
    return samples | market.queries(np.random.default_rng(show.seed), show.queries - len(samples))


def _attend(show: Show, engine: Engine, feed: Feed, tally: Tally, screen: Screen) -> None:
    began_s = monotonic()
    samples = Samples(engine, list(SAMPLES)[: show.queries])
    while engine.is_running and tally.elapsed_s(monotonic()) < show.seconds:
        now_s = monotonic()
        tally.absorb(engine.statistics(), now_s)
        feed.read(tally.rounds)
        samples.refresh(now_s)
        screen.update(tally, now_s, samples)
        if tally.first_s is None and now_s - began_s > FIRST_ROUND_MAX_S:
            raise HeadraceError(
                "no round in the first minutes",
                value=f"{FIRST_ROUND_MAX_S:.0f} s",
                hint="headrace doctor looks for the reason",
                code="DEMO",
            )
        screen.wait(POLL_S)


@contextmanager
def _folder(home: Path | None) -> Iterator[Path]:
    if home is not None:
        yield home
        return
    try:
        place = tempfile.gettempdir()
    except FileNotFoundError:
        raise HeadraceError(
            "there is no folder for temporary files, in which the demo could play",
            hint="headrace demo --home DIR plays in a folder that can be written",
            code="DEMO",
        ) from None
    with tempfile.TemporaryDirectory(
        prefix="headrace-demo-", dir=place, ignore_cleanup_errors=True
    ) as made:
        yield Path(made)
