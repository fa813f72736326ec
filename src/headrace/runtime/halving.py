"""Which of many things that are done together make it fail: halve them until each that fails is
alone.  Pure.

What fails is done again with a half of the things, whatever the error was.  n things of which one
fails are tried 2 log₂ n times; no more than `tries_max` in all, after which what is left together
is blamed together: the round must go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
Failing = Callable[[Sequence[T]], str | None]
"""Why doing this with these things fails; None if it does not."""


def failing_alone(
    things: Sequence[T], reason: str, failing: Failing[T], tries_max: int
) -> dict[T, str]:
    """Of things that fail together with `reason`: those that fail without the others too, each with
    its own reason. None of them may."""
    return _Search(failing, tries_max).alone(things, reason)


def failing_together(
    things: Sequence[T], reason: str, failing: Failing[T], tries_max: int
) -> dict[T, str]:
    """Of things of which none fails alone: some without which the others do not fail together."""
    return _Search(failing, tries_max).beside([], things, reason)


class _Search(Generic[T]):
    def __init__(self, failing: Failing[T], tries_max: int) -> None:
        self._failing = failing
        self._tries_left = tries_max

    def _fails(self, things: Sequence[T]) -> str | None:
        self._tries_left -= 1
        return self._failing(things)

    def alone(self, things: Sequence[T], reason: str) -> dict[T, str]:
        if len(things) <= 1 or self._tries_left <= 0:
            return _blamed(things, reason)
        found: dict[T, str] = {}
        for half in _halves(things):
            why = self._fails(half)
            if why is not None:
                found |= self.alone(half, why)
        return found

    def beside(self, fine: list[T], things: Sequence[T], reason: str) -> dict[T, str]:
        """Those of the things that fail beside what is fine; the others are then fine too."""
        if len(things) <= 1 or self._tries_left <= 0:
            return _blamed(things, reason)
        found: dict[T, str] = {}
        for half in _halves(things):
            why = self._fails([*fine, *half])
            if why is None:
                fine += half
            else:
                found |= self.beside(fine, half, why)
        return found


def _blamed(things: Sequence[T], reason: str) -> dict[T, str]:
    """All of them; who reads the reason is told where it may be another's."""
    if len(things) > 1:
        reason += f" (this, or another of {len(things):,} that quarantine_probes_max tries did not tell apart)"
    return dict.fromkeys(things, reason)


def _halves(things: Sequence[T]) -> tuple[Sequence[T], Sequence[T]]:
    half = len(things) // 2
    return things[:half], things[half:]
