"""Patterns of LIKE and RLIKE: only those that cannot hold a core.

Java matches regular expressions by backtracking; one like (a+)+$ takes exponential time on a long row, and
cannot be cancelled.  We accept a subset in which the work is bounded by a small power of the length:
no repetition of what already repeats or branches, no look-around, no references, few open repetitions.
"""

from __future__ import annotations

import re

from headrace.sql.types import MismatchError

OPEN_REPEATS_MAX = 3
LIKE_GAPS_MAX = 8
REPEAT_MAX = 1_000
_BRACES = re.compile(r"\{(\d{1,4})(,?)(\d{0,4})\}")
_CLASS = re.compile(r"\[\^?\]?(?:\\[dDwWsStnr\W]|[^\]\[\\&])+\]")
_ESCAPES = frozenset("dDwWsSbBtnr")


def check_like(pattern: str, escape: str = "\\") -> None:
    """An escape must stand before %, _ or itself: Spark fails at run time otherwise."""
    if len(escape) != 1:
        raise MismatchError("ESCAPE takes one character", value=repr(escape))
    gaps, at = 0, 0
    while at < len(pattern):
        if pattern[at] == escape:
            if pattern[at + 1 : at + 2] not in ("%", "_", escape):
                raise MismatchError(f"{escape!r} must stand before %, _ or itself", arg=1, value=repr(pattern))
            at += 1
        elif pattern[at] == "%" and pattern[at - 1 : at] != "%":
            gaps += 1
        at += 1
    if gaps > LIKE_GAPS_MAX:
        raise MismatchError(f"more than {LIKE_GAPS_MAX} of % in one pattern", arg=1, value=repr(pattern))


def check_regex(pattern: str, length_max: int) -> None:
    if len(pattern) > length_max:
        raise MismatchError(
            f"the pattern is longer than sql_pattern_length_max={length_max:,}", arg=1,
            value=f"{len(pattern):,} characters",
        )
    _Regex(pattern).check()


class _Regex:
    """One pass over a pattern.  `groups` holds, per open group, whether it repeats or branches inside."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.open_repeats = 0
        self.groups = [False]
        self.atom: str | None = None  # None: nothing to repeat; 'one'; 'group'; 'busy' repeats or branches inside

    def check(self) -> None:
        while self.at < len(self.pattern):
            self._step(self.pattern[self.at])
        if len(self.groups) > 1:
            raise self._error("a group is not closed")

    def _step(self, mark: str) -> None:
        if mark == "(":
            self._open()
        elif mark == ")":
            self._close()
        elif mark in "*+?{":
            self._repeat(mark)
        elif mark == "[":
            found = _CLASS.match(self.pattern, self.at)
            if found is None:
                raise self._error("a character class we do not accept", "write one like [a-z0-9_]")
            self._move(len(found.group()), "one")
        elif mark == "\\":
            self._escape()
        elif mark in "|^$":
            self.groups[-1] |= mark == "|"
            self._move(1, None)
        else:
            self._move(1, "one")

    def _move(self, length: int, atom: str | None) -> None:
        self.at += length
        self.atom = atom

    def _open(self) -> None:
        plain = self.pattern.startswith("(?:", self.at)
        if self.pattern.startswith("(?", self.at) and not plain:
            raise self._error("look-around, flags and named groups are not accepted", "use ( ) or (?: )")
        if len(self.groups) > 20:
            raise self._error("groups are nested deeper than 20")
        self.groups.append(False)
        self._move(3 if plain else 1, None)

    def _close(self) -> None:
        if len(self.groups) == 1:
            raise self._error("a group is closed that was not opened")
        busy = self.groups.pop()
        self.groups[-1] |= busy
        self._move(1, "busy" if busy else "group")

    def _escape(self) -> None:
        following = self.pattern[self.at + 1 : self.at + 2]
        if not following or not following.isascii() or (following.isalnum() and following not in _ESCAPES):
            raise self._error("an escape we do not accept", "\\d \\w \\s \\b and escaped punctuation are")
        self._move(2, None if following in "bB" else "one")

    def _repeat(self, mark: str) -> None:
        high, length = self._counts(mark)
        if self.atom is None:
            raise self._error("nothing to repeat, or a repetition of a repetition")
        if self.atom == "busy" and high != 1:
            raise self._error("a repeated group repeats or branches inside: it may take exponential time")
        if high is None:
            self.open_repeats += 1
        if self.open_repeats > OPEN_REPEATS_MAX:
            raise self._error(f"more than {OPEN_REPEATS_MAX} open repetitions (* + or {{n,}})")
        self.groups[-1] = True
        self._move(length, None)
        if self.pattern[self.at : self.at + 1] == "?":
            self._move(1, None)

    def _counts(self, mark: str) -> tuple[int | None, int]:
        """How often at most (None: no end), and how long the mark is."""
        if mark != "{":
            return (1 if mark == "?" else None), 1
        found = _BRACES.match(self.pattern, self.at)
        if found is None:
            raise self._error("{ begins a count, such as {2,5}", "write \\{ for the character itself")
        low, comma, top = found.groups()
        high = int(top) if top else (None if comma else int(low))
        if max(int(low), high or 0) > REPEAT_MAX or (high is not None and high < int(low)):
            raise self._error(f"counts go up to {REPEAT_MAX:,}, the smaller first")
        return high, len(found.group())

    def _error(self, what: str, hint: str = "") -> MismatchError:
        return MismatchError(f"the pattern is not one we accept: {what}", arg=1,
                        value=f"{self.pattern!r}, at character {self.at + 1}", hint=hint)
