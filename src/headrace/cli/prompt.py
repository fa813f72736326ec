"""`sql`: a prompt.  Statements end with a semicolon; an error does not end the prompt."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.cli.driving import drain
from headrace.cli.opening import DEFAULT_HOME, ConfOption, HomeOption, opened
from headrace.cli.script import Script
from headrace.cli.show import complain, console, note
from headrace.errors import HeadraceError, SQLError

if TYPE_CHECKING:
    from headrace.sql.statements import Statement

HISTORY = Path("~/.headrace_history")
HISTORY_LINES = 2_000
QUIT = ("\\q", "exit", "quit", "exit;", "quit;")
HELP = """\
CREATE STREAM name (column TYPE, …) USING parquet OPTIONS (path '…', time 'column', late '10 seconds');
CREATE TABLE name (column TYPE, …, PRIMARY KEY (column)) USING parquet OPTIONS (path '…', deleted 'column');
CREATE QUERY name AS SELECT …;     a standing query
SELECT …;                          a query for a moment: run, shown, dropped
EXPLAIN [name];  SHOW QUERIES;  DROP QUERY name;
\\run  runs what is there   \\h  this help   \\q  leaves"""


def sql(conf: ConfOption = None, home: HomeOption = DEFAULT_HOME) -> None:
    """A prompt for statements and queries.  Reads a script where standard input is not a
    terminal."""
    with opened(home, make=True, conf=conf) as engine:
        script = Script(engine, lambda: _drain(script))
        if sys.stdin.isatty():
            note(f"Headrace on {home}. Statements end with ; — \\h for help, \\q to leave.")
            with _history():
                converse(script, input)
        else:
            script.carry_out(_parsed(sys.stdin.read()))


def converse(script: Script, ask: Callable[[str], str]) -> None:
    """Read statements and carry them out until the end of input or `\\q`."""
    for text in statements(ask):
        try:
            if text == "\\run":
                _drain(script)
            elif text == "\\h":
                console().print(HELP, markup=False)
            else:
                script.carry_out(_parsed(text))
        except HeadraceError as error:
            complain(str(error))
        except KeyboardInterrupt:
            note("stopped")


def statements(ask: Callable[[str], str]) -> Iterator[str]:
    """Lines up to one that completes a statement; Ctrl-C forgets what was typed."""
    typed: list[str] = []
    while True:
        try:
            line = ask("     ...> " if typed else "headrace> ")
        except EOFError:
            return
        except KeyboardInterrupt:
            typed = []
            console().print()
            continue
        command = line.strip()
        if not typed and command.lower() in QUIT:
            return
        if not typed and command in ("\\run", "\\h"):
            yield command
        elif typed or command:
            typed.append(line)
            if complete("\n".join(typed)):
                yield "\n".join(typed)
                typed = []


def complete(text: str) -> bool:
    """Whether the text ends with a semicolon that is not inside a string or a comment."""
    if ";" not in text:
        return False
    from headrace.config import Config
    from headrace.sql.text import tokenize

    try:
        tokens = tokenize(text, Config.from_environment())
    except SQLError as error:
        # what no further line can mend is told at once
        return not error.what.endswith("not closed")
    return len(tokens) > 1 and tokens[-2].upper == ";"


def _parsed(text: str) -> tuple[Statement, ...]:
    from headrace.config import Config
    from headrace.sql.statements import parse_script

    return parse_script(text, Config.from_environment())


def _drain(script: Script) -> None:
    _, whole = drain(script.engine)
    if not whole:
        raise KeyboardInterrupt


@contextmanager
def _history() -> Iterator[None]:
    """Line editing and history, where Python has readline."""
    try:
        import readline
    except ImportError:
        yield
        return
    path = HISTORY.expanduser()
    with suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(HISTORY_LINES)
    try:
        yield
    finally:
        with suppress(OSError):
            readline.write_history_file(path)
