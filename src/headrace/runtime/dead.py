"""Dead letters: rows that do not fit the schema, kept with their reason, bounded, counted."""

from __future__ import annotations

import json

from headrace.config import Config
from headrace.disk import Disk
from headrace.runtime.family import CORRUPT, Batch, Round
from headrace.runtime.ledger import FileMark, mark_of


def bury(disk: Disk, folder: str, batch: Batch, round: Round, config: Config) -> list[FileMark]:
    """Write the bad rows of a round, at most `dead_letter_rows_max` of them, as lines of JSON."""
    rows = batch.frame.where(f"`{CORRUPT}` IS NOT NULL").select(CORRUPT).limit(config.dead_letter_rows_max).collect()
    lines = [json.dumps({"round": round.id, "reason": "does not fit the schema", "row": r[0]}) for r in rows]
    if round.census.bad > len(lines):
        left_out = round.census.bad - len(lines)
        lines.append(json.dumps({"round": round.id, "reason": "dead_letter_rows_max", "left_out": left_out}))
    data = ("\n".join(lines) + "\n").encode()
    path = f"{folder}/dead/{round.id:012d}.jsonl"
    disk.put(path, data)
    return [mark_of(path, data)]
