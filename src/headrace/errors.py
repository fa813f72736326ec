"""Every error a user can meet: what failed, the value received, the valid choices, the next step.

Errors carry data and are formatted here only.  `code` is stable: programs may match on it.
`assert` is kept for our own bugs.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MEASURED_MAX = 1_000  # names each of which is compared with an unknown one


class HeadraceError(Exception):
    """Base of every error raised on purpose."""

    code = "HEADRACE"

    def __init__(
        self,
        what: str,
        *,
        value: object = None,
        choices: Iterable[str] = (),
        hint: str = "",
        code: str | None = None,
    ) -> None:
        self.what = what
        self.value = value
        self.choices = tuple(choices)
        self.hint = hint
        if code is not None:
            self.code = code
        super().__init__(self.render())

    def render(self) -> str:
        lines = [f"[{self.code}] {self.what}"]
        if self.value is not None:
            lines.append(f"  got:     {_shorten(str(self.value))}")
        if self.choices:
            lines.append(f"  choices: {', '.join(self.choices)}")
        if self.hint:
            lines.append(f"  next:    {self.hint}")
        return "\n".join(lines)


class HeadraceWarning(UserWarning):
    """What works, but hardly as it was meant."""


class SQLError(HeadraceError):
    """A query text we do not accept.  Points into the text with a caret."""

    code = "SQL"

    def __init__(
        self,
        what: str,
        *,
        sql: str = "",
        at: int | None = None,
        value: object = None,
        choices: Iterable[str] = (),
        hint: str = "",
        code: str | None = None,
    ) -> None:
        self.sql = sql
        self.at = at
        super().__init__(what, value=value, choices=choices, hint=hint, code=code)

    def render(self) -> str:
        text = super().render()
        if self.at is None or not self.sql:
            return text
        head, *rest = text.split("\n")
        return "\n".join([head, *_point(self.sql, self.at), *rest])


class CatalogError(HeadraceError):
    """A name, a definition or the catalog log itself."""

    code = "CATALOG"


class PlanError(HeadraceError):
    """A set of queries that cannot be planned within the configured limits."""

    code = "PLAN"


class HomeError(HeadraceError):
    """The home folder: held by another engine, of another version, damaged, or not matching Spark's logs."""

    code = "HOME"


class SourceError(HeadraceError):
    """A source that vanished, changed after it was read, or does not fit its schema."""

    code = "SOURCE"


class RoundError(HeadraceError):
    """A round that could not be finished.  Nothing of it is committed."""

    code = "ROUND"

    def __init__(self, what: str, *, query: str | None = None, round_id: int | None = None, value: object = None,
                 choices: Iterable[str] = (), hint: str = "", code: str | None = None) -> None:
        self.query = query
        self.round_id = round_id
        where = "" if round_id is None else f"round {round_id}: "
        who = "" if query is None else f"query {query!r}: "
        super().__init__(where + who + what, value=value, choices=choices, hint=hint, code=code)


class ServingError(HeadraceError):
    """A subscriber asked for something that is not there (any more)."""

    code = "SERVING"


def near(name: str, known: Iterable[str], limit: int = 5) -> tuple[str, ...]:
    """The known names to list beside an unknown one: close ones; else the closest, of many only the first few."""
    pool = sorted(set(known))
    by_lower = {n.lower(): n for n in pool}
    for cutoff in (0.6, 0.0) if len(pool) <= MEASURED_MAX else (0.6,):
        close = get_close_matches(name.lower(), list(by_lower), n=limit, cutoff=cutoff)
        if close:
            return tuple(by_lower[c] for c in close)
    return tuple(pool[:limit])


def _shorten(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


def _point(sql: str, at: int, width: int = 96) -> list[str]:
    """The line of `sql` that holds offset `at`, cut to `width`, and a caret under the place."""
    at = max(0, min(at, len(sql)))
    start = sql.rfind("\n", 0, at) + 1
    end = sql.find("\n", at)
    line = sql[start : end if end >= 0 else len(sql)]
    column = at - start
    if len(line) > width:
        cut = max(0, column - width // 2)
        line = line[cut : cut + width]
        column -= cut
    number = sql.count("\n", 0, at) + 1
    margin = f"  line {number}: "
    return [margin + line.replace("\t", " "), " " * (len(margin) + column) + "^"]
