"""A round that Spark repeats is recognised by its input, not by its id alone."""

from __future__ import annotations

from headrace.errors import RoundError
from headrace.runtime.ledger import Ledger, Manifest
from headrace.runtime.sparklogs import Input, SparkLogs


def check_repeat(round_id: int, newest: Manifest, ledger: Ledger, logs: SparkLogs) -> None:
    """Spark repeats a committed round when it was killed before noting the commit: same input,
    nothing to do."""
    before = Input.of(ledger.read(round_id - 1)) if round_id - 1 in ledger.rounds else None
    if round_id != newest.round_id:
        raise RoundError(
            "Spark repeats an old round",
            round_id=round_id,
            code="CHECKPOINT_MISMATCH",
            value=f"newest committed round: {newest.round_id}",
        )
    source = logs.input_of(round_id, before)
    if (source.checkpoint_id, source.offsets) != (newest.checkpoint_id, newest.offsets) or (
        before is not None and source.chain != newest.chain
    ):
        raise RoundError(
            "Spark repeats the round with another input than was committed",
            round_id=round_id,
            code="CHECKPOINT_MISMATCH",
            hint="`headrace doctor` explains the ways out",
        )
