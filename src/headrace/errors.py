"""Every error a user can meet: what failed, the value received, the valid choices, the next step.

Errors carry data and are formatted here only.  `code` is stable: programs may match on it.
`assert` is kept for our own bugs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

MEASURED_MAX = 1_000  # names each of which is compared with an unknown one


_HIDDEN_MIN = 4  # shorter ones are parts of too many words
_hidden: set[str] = set()
# a password may hold a slash
_USER = re.compile(r"(://)[^/\s@:'\"]{1,256}:(?!\d{1,5}/)[^\s@'\"]{1,256}@")
# Texts may be a user's, of any length: counts are bounded, so that no text takes the square of its
# length.
_OPTION = re.compile(
    r"""(?i)((?:passw|secret|token|credential|jaas)[\w.-]{0,64}\s{0,8}=\s{0,8})(?!secret:\w)"""
    r"""("[^"]*"|'[^']*'|[^\s&;,"')]+)"""
)
_LOGIN = re.compile(r"jaas|LoginModule|passw\w{0,64}\s{0,8}=\s{0,8}[\"']", re.I)


def hide(*values: str) -> None:
    """No message prints these from now on."""
    _hidden.update(value for value in values if len(value) >= _HIDDEN_MIN)


def redact(text: str) -> str:
    """The text without secrets: those that are known, users and passwords in addresses, and values
    of options that may be one where the text quotes a source or what Java says of its login."""
    for value in sorted(_hidden, key=len, reverse=True) if _hidden else ():
        text = text.replace(value, "***")
    if "@" in text:
        text = _USER.sub(r"\1***@", text)
    if "=" in text and (_LOGIN.search(text) or any(map(_is_source, text.split()))):
        text = _OPTION.sub(r"\1***", text)
    return text


def _is_source(word: str) -> bool:
    """`kind:place?option=value`."""
    return "=" in word.partition(":")[2].partition("?")[2]


class HeadraceError(Exception):
    """Base of every error raised on purpose."""

    code = "HEADRACE"
    log = ""

    def __init__(
        self,
        what: str,
        *,
        value: object = None,
        choices: Iterable[str] = (),
        hint: str = "",
        code: str | None = None,
    ) -> None:
        self.what = redact(what)
        self.value = redact(value) if isinstance(value, str) else value
        self.choices = tuple(map(redact, choices))
        self.hint = redact(hint)
        if code is not None:
            self.code = code
        super().__init__(self.render())

    def name_log(self, path: str) -> None:
        """Where Spark's own words on it are."""
        self.log = path
        self.args = (self.render(),)

    def render(self) -> str:
        lines = [f"[{self.code}] {self.what}"]
        if self.value is not None:
            lines.append(f"  got:     {_shorten(redact(str(self.value)))}")
        if self.choices:
            lines.append(f"  choices: {', '.join(self.choices)}")
        if self.hint:
            lines.append(f"  next:    {self.hint}")
        if self.log:
            lines.append(f"  log:     {self.log}")
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
    """The home folder: held by another engine, of another version, damaged, or not matching Spark's
    logs."""

    code = "HOME"


class SourceError(HeadraceError):
    """A source that vanished, changed after it was read, or does not fit its schema."""

    code = "SOURCE"


class RoundError(HeadraceError):
    """A round that could not be finished.  Nothing of it is committed."""

    code = "ROUND"

    def __init__(
        self,
        what: str,
        *,
        query: str | None = None,
        round_id: int | None = None,
        value: object = None,
        choices: Iterable[str] = (),
        hint: str = "",
        code: str | None = None,
    ) -> None:
        self.query = query
        self.round_id = round_id
        where = "" if round_id is None else f"round {round_id}: "
        who = "" if query is None else f"query {query!r}: "
        super().__init__(where + who + what, value=value, choices=choices, hint=hint, code=code)


class ServingError(HeadraceError):
    """A subscriber asked for something that is not there (any more)."""

    code = "SERVING"


def near(name: str, known: Iterable[str], limit: int = 5) -> tuple[str, ...]:
    """The known names to list beside an unknown one: close ones; else the closest, of many only the
    first few."""
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
