"""What equal numbers say of the values they stand for (`attributes.py`).  Pure, and quick to import."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.sql.bands import is_ordered
from headrace.sql.tree import Expr

WIDEST = (1 << 62) - 1  # differences of numbers up to this fit into 64 bits


def is_exact(meets: Sequence[Expr]) -> bool:
    """Whether rows of one mark have the same values."""
    return len(meets) == 1 and (
        is_ordered(meets[0].type) or meets[0].type.name in ("boolean", "timestamp_ntz")
    )
