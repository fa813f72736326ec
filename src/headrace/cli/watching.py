"""`watch`: answers as they are committed, resumable by sequence number."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.opening import DEFAULT_HOME, HomeOption, opened
from headrace.cli.show import note, plain_json
from headrace.showing import cell

if TYPE_CHECKING:
    from headrace.reading import Answer


class Format(StrEnum):
    table = "table"
    json = "json"


def watch(
    query: Annotated[str, typer.Argument(help="Name of a query.", metavar="NAME")],
    since: Annotated[
        int | None, typer.Option(help="Only answers after this sequence number.", metavar="SEQ")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", "-f", help="Wait for more answers.")
    ] = True,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many answers.", metavar="N")
    ] = None,
    layout: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.table,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Show a query's answers, then the new ones as rounds commit them (another process runs the
    engine)."""
    with opened(home) as engine:
        answers = islice(engine.watch(query, since=since, follow=follow), limit)
        seen = _write(
            json_lines(answers) if as_json or layout is Format.json else aligned_lines(answers)
        )
    if not seen and layout is Format.table and not as_json:
        note(
            "no answers yet: a window answers when the stream has passed its end; `headrace run` runs the home"
        )


def json_lines(answers: Iterable[Answer]) -> Iterator[str]:
    """One object a line, `seq` first."""
    for answer in answers:
        yield json.dumps({"seq": answer.seq, **plain_json(dict(answer))})


def aligned_lines(answers: Iterable[Answer]) -> Iterator[str]:
    """A header, then a line an answer.  Following has no end, so columns widen as they must."""
    widths: dict[str, int] = {}
    for answer in answers:
        row: dict[str, Any] = {"seq": answer.seq, **answer}
        texts = {name: cell(value) for name, value in row.items()}
        if not widths:
            widths = {name: max(len(name), len(text)) for name, text in texts.items()}
            yield "  ".join(name.ljust(width) for name, width in widths.items()).rstrip()
            yield "  ".join("─" * width for width in widths.values())
        widths = {name: max(width, len(texts[name])) for name, width in widths.items()}
        yield "  ".join(
            _align(texts[name], row[name], width) for name, width in widths.items()
        ).rstrip()


def _align(text: str, value: object, width: int) -> str:
    return text.rjust(width) if isinstance(value, int | float) else text.ljust(width)


def _write(lines: Iterable[str]) -> bool:
    """Whether there were any.  Each line is out before the next is waited for."""
    seen = False
    try:
        for line in lines:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
            seen = True
    except KeyboardInterrupt:
        seen = True
    return seen
