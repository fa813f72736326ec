"""Patterns of LIKE and RLIKE: only those that cannot hold a core.

Java matches regular expressions by backtracking, and cannot be stopped.  (a+)+$ takes exponential
time on a long row, .*a.*b.*c the fourth power of its length.  So a pattern of RLIKE has a bound on
its steps (`regex_work.py`).

LIKE needs no bound: `%` takes as little as it can, and never has to take more once the piece behind
it is found.  Java does not know that, so where it would backtrack LIKE is emitted as a regular
expression that tells it so.
"""

from __future__ import annotations

from headrace.config import Config
from headrace.sql import regex
from headrace.sql.regex_work import TEXT_LENGTH, steps
from headrace.sql.types import MismatchError

ESCAPE = "\\"
MANY = 10**30  # steps; more are not told apart
_BMP_LAST = "\uffff"


def check_like(pattern: str, escape: str, ignores_case: bool, config: Config) -> None:
    """An escape must stand before %, _ or itself: Spark fails at run time otherwise."""
    _check_length(pattern, config)
    if len(escape) != 1 or escape > _BMP_LAST:
        raise MismatchError("ESCAPE takes one character, below U+10000", arg=2, value=repr(escape))
    if ignores_case and (not escape.isascii() or escape.isalpha()):
        # Spark makes the pattern lower case before it looks for the escape.
        raise MismatchError(
            "ESCAPE of ILIKE takes an ASCII character that is not a letter",
            arg=2,
            value=repr(escape),
        )
    for mark, _ in _marks(pattern, escape):
        if mark == "escape":
            raise MismatchError(
                f"{escape!r} must stand before %, _ or itself", arg=1, value=repr(pattern)
            )
    if ignores_case and "Σ" in pattern and like_regex(pattern, escape) is not None:
        # Σ becomes ς at the end of a word, and a regular expression has other words than the
        # pattern.
        raise MismatchError(
            "ILIKE takes no Σ among several %",
            arg=1,
            value=repr(pattern),
            hint="write the pattern in small letters",
        )


def check_regex(pattern: str, config: Config) -> str:
    """The pattern to give to Java: the same, without what it may begin or end with."""
    _check_length(pattern, config)
    short = regex.trimmed(pattern)
    worst = steps(regex.parse(short))
    if worst > config.sql_pattern_steps_max:
        raise MismatchError(
            f"the pattern may take {float(min(worst, MANY)):.0e} steps on a text of {TEXT_LENGTH:,} characters, more "
            f"than sql_pattern_steps_max={config.sql_pattern_steps_max:,}",
            arg=1,
            value=repr(pattern),
            hint="begin it with ^, use fewer repetitions and choices that overlap, or LIKE '%a%b%c%'",
        )
    return short


def like_regex(pattern: str, escape: str) -> str | None:
    """The regular expression to run instead of LIKE; None where LIKE itself cannot backtrack.

    It has no capital letter outside the pieces, so that it may be made lower case as a whole, for
    ILIKE."""
    pieces = _pieces(pattern, escape)
    if len(pieces) < 3 or (len(pieces) == 3 and not pieces[2]):
        return None
    first, *middle, last = pieces
    found = "".join(f"(?>.*?{piece})" for piece in middle if piece)
    return f"(?s)^{first}{found}.*{last}\\z"


def _pieces(pattern: str, escape: str) -> list[str]:
    """What stands before, between and after the %, as regular expressions."""
    pieces = [""]
    for mark, char in _marks(pattern, escape):
        if mark == "%":
            if pieces[-1] or len(pieces) == 1:
                pieces.append("")
        else:
            pieces[-1] += "." if mark == "_" else _quoted(char)
    return pieces


def _quoted(char: str) -> str:
    return f"\\{char}" if char.isascii() and char.isprintable() and not char.isalnum() else char


def _marks(pattern: str, escape: str) -> list[tuple[str, str]]:
    """(kind, character): % and _ as they are, 'char' for what stands for itself, 'escape' for one
    that may not be."""
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == escape:
            at += 1
            char = pattern[at : at + 1]
            found.append(("char" if char and char in ("%", "_", escape) else "escape", char))
        else:
            found.append((char if char in "%_" else "char", char))
        at += 1
    return found


def _check_length(pattern: str, config: Config) -> None:
    if len(pattern) > config.sql_pattern_length_max:
        raise MismatchError(
            f"the pattern is longer than sql_pattern_length_max={config.sql_pattern_length_max:,}",
            arg=1,
            value=f"{len(pattern):,} characters",
        )
