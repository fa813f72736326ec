"""Whatever a manifest says was measured, EXPLAIN and the bills say something, or that the manifest
is damaged.

Every figure of the newest round of every stream is replaced by every odd value, one at a time;
`test_any_bytes.py` draws some of these.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import headrace
from headrace.catalog.catalog import Catalog
from headrace.config import Config
from headrace.cost_attribution import stream_cost
from headrace.errors import HeadraceError
from headrace.explaining import explain_all, explain_one
from headrace.forecast import recent_stats
from headrace.planning import Plans
from headrace.runtime.answers import AnswerLog
from headrace.runtime.ledger import Ledger
from tests.engine.test_any_bytes import ODD, Patient, patient, places  # noqa: F401 - a fixture


def changed(stats: Any) -> Iterator[tuple[str, Any]]:
    """Each figure as each odd value, as JSON has it."""
    text = json.dumps(stats)
    for path in list(places(json.loads(text)))[1:]:
        for odd in (*ODD, -(2**62), 2**62):
            data = holder = json.loads(text)
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = odd
            yield f"{'.'.join(map(str, path))} = {str(odd)[:30]!r}", data


@pytest.mark.parametrize("stream", ["s", "t"])
def test_any_figure_of_a_round(patient: Patient, stream: str) -> None:  # noqa: F811
    disk = headrace.Engine(patient.restore()).home.disk
    catalog = Catalog(disk, Config())
    ledgers = {name: Ledger(disk, f"streams/{name}") for name in ("s", "t")}
    histories, plans = (
        {name: recent_stats(ledger) for name, ledger in ledgers.items()},
        Plans(catalog),
    )
    ledger = ledgers[stream]
    newest = ledger.newest
    assert newest is not None

    def explain(history: list[Any]) -> None:
        rounds = {**histories, stream: history}
        explain_all(catalog, rounds, plans)
        for own in catalog.queries.values():
            explain_one(own, catalog, rounds, plans)

    wrong, refused, tried = [], 0, 0
    for what, stats in changed(newest.stats):
        tried += 1
        ledger.newest, ledger.rounds = replace(newest, stats=stats), [newest.round_id]
        try:
            explain([*histories[stream][:-1], ledger.stats(ledger.newest)])
            stream_cost(catalog.relation(stream), catalog, ledger, AnswerLog(disk, ledger))
        except HeadraceError as error:
            assert error.code == "MANIFEST_DAMAGED"
            refused += 1
        except Exception as error:  # noqa: BLE001 - these are what we look for
            wrong.append(f"{what} → {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)
    assert 0 < refused < tried
