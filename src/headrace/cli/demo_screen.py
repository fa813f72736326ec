"""What the demo shows: a live table on a terminal, a plain line now and then elsewhere, a summary
at the end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from time import monotonic, sleep
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.box import ROUNDED
from rich.console import Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headrace.cli.show import console, count, duration
from headrace.showing import cell

if TYPE_CHECKING:
    from headrace.cli.tally import Tally
    from headrace.engine import Engine

LINE_EVERY_S = 2.0
SAMPLE_EVERY_S = 1.0
ANSWERS_SHOWN = 3


class Samples:
    """The newest answers of a few queries, looked up now and then, from where the last look
    ended."""

    def __init__(self, engine: Engine, names: Sequence[str]) -> None:
        self._engine = engine
        self._since: dict[str, int | None] = dict.fromkeys(names)
        self._looked_s = 0.0
        self.newest: dict[str, list[dict[str, Any]]] = {name: [] for name in names}

    def refresh(self, now_s: float) -> None:
        if now_s - self._looked_s < SAMPLE_EVERY_S:
            return
        self._looked_s = now_s
        for name, since in self._since.items():
            for answer in self._engine.watch(name, since=since, follow=False):
                self._since[name] = answer.seq
                self.newest[name] = [*self.newest[name], dict(answer)][-ANSWERS_SHOWN:]


class Screen:
    """`with Screen(…) as screen:` then `update` and `wait` in turn."""

    def __init__(self, seconds: int, rows_per_second: int) -> None:
        self._seconds = seconds
        self._event_rate = rows_per_second
        self._out = console()
        self._live = (
            Live(console=self._out, refresh_per_second=4, transient=True)
            if self._out.is_terminal
            else None
        )
        self._line_s = 0.0
        self._began_s = monotonic()

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def wait(self, seconds: float) -> None:
        sleep(seconds)

    def prepare(self, text: str) -> None:
        """Before there is anything to show of a round."""
        if self._live is not None:
            self._live.update(self._framed(Text(text, style="dim")))
        else:
            self._say(text, monotonic())
        self._began_s = monotonic()

    def update(self, tally: Tally, now_s: float, samples: Samples) -> None:
        if self._live is not None:
            self._live.update(self._panel(tally, now_s, samples))
        else:
            text = line(tally, now_s) if tally.rounds else first_round(now_s - self._began_s)
            self._say(text, now_s)

    def _say(self, text: str, now_s: float) -> None:
        """A line now and then."""
        if now_s - self._line_s >= LINE_EVERY_S:
            self._line_s = now_s
            self._out.print(text, soft_wrap=True, markup=False)

    def _panel(self, tally: Tally, now_s: float, samples: Samples) -> Panel:
        if not tally.rounds:
            body: RenderableType = Text(first_round(now_s - self._began_s), style="dim")
        else:
            past_s = tally.elapsed_s(now_s)
            left = Text(f"{max(self._seconds - past_s, 0):.0f} s left", style="dim")
            bar = Table.grid(padding=(0, 1))
            bar.add_row(ProgressBar(total=self._seconds, completed=past_s, width=48), left)
            body = Group(_figures(tally, now_s, self._event_rate), "", _answers(samples), "", bar)
        return self._framed(body)

    def _framed(self, body: RenderableType) -> Panel:
        title = "[bold]Headrace[/] · many standing queries, one Spark stream"
        return Panel(body, title=title, box=ROUNDED, padding=(1, 2), width=min(self._out.width, 96))


def first_round(seconds: float) -> str:
    return f"the first round, which warms Spark up … {seconds:.0f} s"


def line(tally: Tally, now_s: float) -> str:
    return (
        f"{tally.elapsed_s(now_s):4.0f} s  round {tally.rounds:,}  {count(tally.rows)} rows  "
        f"{count(tally.rows_per_s(now_s))} rows/s  {tally.queries:,} queries  {count(tally.answers)} answers  "
        f"{count(tally.answers_per_s(now_s))} answers/s  {duration(tally.round_s)} a round  unshared {unshared(tally)}"
    )


def unshared(tally: Tally) -> str:
    """What the same queries would need as streaming jobs of their own, to keep up with this one."""
    cores = os.cpu_count() or 1
    return f"≈ {count(cores * tally.saving)} cores (× {count(tally.saving)})"


def _figures(tally: Tally, now_s: float, event_rate: int) -> Table:
    grid = Table.grid(padding=(0, 3))
    grid.add_column(style="dim")
    grid.add_column(justify="right", style="bold")
    grid.add_column()
    rows_per_s = tally.rows_per_s(now_s)
    pace = f"{rows_per_s / event_rate:,.1f} × real time" if event_rate else ""
    grid.add_row("rows", count(tally.rows), f"{count(rows_per_s)} a second")
    grid.add_row("event time", duration(tally.event_s), pace)
    grid.add_row("standing queries", f"{tally.queries:,}", "all distinct")
    grid.add_row("answers", count(tally.answers), f"{count(tally.answers_per_s(now_s))} a second")
    grid.add_row("rounds", f"{tally.rounds:,}", f"{duration(tally.round_s)} each")
    grid.add_row(
        "as jobs of their own",
        f"× {count(tally.saving)}",
        f"≈ {count(tally.saving * (os.cpu_count() or 1))} cores",
    )
    return grid


def _answers(samples: Samples) -> Table:
    made = Table.grid(padding=(0, 2))
    made.add_column(style="cyan", no_wrap=True)
    made.add_column(style="dim", no_wrap=True)
    made.add_column(no_wrap=True, overflow="ellipsis")
    for name, rows in samples.newest.items():
        for number in range(ANSWERS_SHOWN):
            row = rows[number] if number < len(rows) else None
            label = name if number == 0 else ""
            made.add_row(
                label,
                *(
                    ("…", "")
                    if row is None and number == 0
                    else ("", "")
                    if row is None
                    else _said(row)
                ),
            )
    return made


def _said(row: dict[str, Any]) -> tuple[str, str]:
    """`14:30:00–14:31:00`, `symbol TAX · vwap 81.2`."""
    start, end = row.get("window_start"), row.get("window_end")
    rest = {
        name: value for name, value in row.items() if name not in ("window_start", "window_end")
    }
    when = (
        f"{_clock(start)}–{_clock(end)}"
        if isinstance(start, datetime) and isinstance(end, datetime)
        else ""
    )
    return when, "  ".join(f"{name} {_number(value)}" for name, value in rest.items())


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else cell(value)


def _clock(moment: datetime) -> str:
    return (moment.astimezone(UTC) if moment.tzinfo else moment).strftime("%H:%M:%S")


def show_summary(tally: Tally, ended_s: float, engine: Engine) -> None:
    """The same text on a terminal and in a file."""
    out = console()
    if not tally.rounds:
        out.print("Ended before the first round.")
        return
    infos = engine.queries()
    shared = sum(info.family != "plain" for info in infos)
    quarantined = sum(info.state != "live" for info in infos)
    rows_per_s, answers_per_s = tally.steady(ended_s)
    pace = tally.event_s / max(tally.elapsed_s(ended_s), 1e-3)
    out.print(
        f"\n{len(infos):,} distinct standing queries on one Spark stream, {os.cpu_count()} cores:",
        style="bold",
    )
    figures = {
        "rows": f"{tally.rows:,}: {count(rows_per_s)} a second after the first round",
        "event time": f"{duration(tally.event_s)}: {pace:,.1f} × real time",
        "answers": f"{tally.answers:,}: {count(answers_per_s)} a second",
        "rounds": f"{tally.rounds:,}, {duration(tally.round_s)} each (slowest {duration(max(tally.round_times_s))})",
        "shared": f"{shared:,} of {len(infos):,}"
        + (f", {quarantined:,} quarantined" if quarantined else ""),
        "late rows": f"{tally.late:,}",
        "unshared": f"{unshared(tally)}, estimated, as jobs of their own at this rate",
    }
    for name, text in figures.items():
        out.print(f"  {name:<12}{text}", markup=False, soft_wrap=True)
