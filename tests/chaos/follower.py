"""Somebody who reads all answers of a home as they come: `python follower.py HOME LOG [once]`.

Each answer is a line of the log: id and name of the query, `seq`, content.  Killed and started
again, it reads the log to know where it was, and resumes by `seq`.  While the home is damaged its
readers may fail, with an error of ours.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import headrace
from headrace.errors import CatalogError, HeadraceError

POLL_S = 0.5


def line_of(query_id: int, name: str, seq: int, row: dict[str, Any]) -> str:
    return json.dumps(
        [query_id, name, seq, {k: repr(v) for k, v in row.items()}], ensure_ascii=False
    )


def read_log(log: Path) -> list[list[Any]]:
    """All whole lines; one that was torn by a kill is taken off."""
    if not log.exists():
        return []
    data = log.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        log.write_bytes(whole)
    return [json.loads(line) for line in whole.splitlines()]


class Follower:
    def __init__(self, home: Path, log: Path) -> None:
        self._home, self._log = home, log
        self._since = {query_id: seq for query_id, _, seq, _ in read_log(log)}
        self._eng: headrace.Engine | None = None

    def look(self) -> None:
        """All that is new."""
        eng = self._eng = self._eng or headrace.Engine(self._home)
        with self._log.open("a", encoding="utf-8") as out:
            for name, query_id in _ids(eng).items():
                try:
                    found = list(eng.watch(name, since=self._since.get(query_id), follow=False))
                except CatalogError:
                    continue
                # dropped, and added again: whose answers these are is unknown
                if _ids(eng).get(name) != query_id:
                    continue
                for answer in found:
                    out.write(line_of(query_id, name, answer.seq, answer) + "\n")
                    out.flush()
                    self._since[query_id] = answer.seq

    def look_again_and_again(self) -> None:
        while True:
            try:
                self.look()
            except HeadraceError as error:
                print(error, file=sys.stderr, flush=True)
                self._eng = None
            time.sleep(POLL_S)


def _ids(eng: headrace.Engine) -> dict[str, int]:
    eng.catalog.refresh()
    return {name: registered.id for name, registered in eng.catalog.queries.items()}


if __name__ == "__main__":
    follower = Follower(Path(sys.argv[1]), Path(sys.argv[2]))
    if sys.argv[3:] == ["once"]:
        follower.look()
    else:
        follower.look_again_and_again()
