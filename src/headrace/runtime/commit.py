"""The end of a round: answers to a file, Spark's logs made durable, the manifest, and what nobody
needs swept away.

The order is that of `ledger.py`.  Only the manifest makes a round true; all before it may be done
again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath

from headrace.catalog.catalog import Catalog
from headrace.config import Config
from headrace.runtime.answers import pack, shared_path
from headrace.runtime.family import Outcome, Round
from headrace.runtime.home import Home
from headrace.runtime.ledger import FileMark, Ledger, Manifest, mark_of
from headrace.runtime.sparklogs import Input, SparkLogs
from headrace.runtime.statistics import RoundStats, Stopwatch, peak_bytes

Stat = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Taken:
    """A round whose rows have been read: what it read, the catalog it is answered with, and what
    the runtime's own part of it is priced, if it counted the rows itself."""

    round: Round
    source: Input
    before: Input | None
    inputs: tuple[Stat, ...]
    files: tuple[FileMark, ...]
    catalog_version: int
    queries: int
    priced: Mapping[str, float] = field(default_factory=dict)


class Commits:
    """Commits the rounds of one stream."""

    def __init__(
        self,
        home: Home,
        stream: str,
        ledger: Ledger,
        logs: SparkLogs,
        catalog: Catalog,
        config: Config,
    ) -> None:
        self._home = home
        self._stream = stream
        self._ledger = ledger
        self._logs = logs
        self._catalog = catalog
        self._config = config
        self._secured = 0
        self._swept: dict[str, int] = {}

    def commit(self, taken: Taken, outcome: Outcome, watch: Stopwatch) -> RoundStats:
        with watch.stage("write"):
            files = [*taken.files, *outcome.files]
            if outcome.blocks:
                files.append(self._write_answers(taken.round.id, outcome))
            self._home.disk.check_written((mark.path, mark.size) for mark in files)
            self._sync_folders([*files, *self._newly_held(outcome)])
        with watch.stage("commit"):
            self._logs.sync(taken.round.id, taken.before)
            if taken.catalog_version != self._secured:
                self._catalog.secure()
                self._secured = taken.catalog_version
            self._home.check_held()
            stats = self._stats(taken, outcome, watch)
            manifest = self._manifest(taken, outcome, files, stats)
            released = self._released(outcome)
            self._ledger.commit(manifest)
        for mark in released:
            self._home.disk.remove(mark.path)
        self._sweep(manifest)
        return stats

    def _newly_held(self, outcome: Outcome) -> list[FileMark]:
        newest = self._ledger.newest
        return [m for m in outcome.held if newest is None or m not in newest.held]

    def _released(self, outcome: Outcome) -> list[FileMark]:
        newest = self._ledger.newest
        return [] if newest is None else [m for m in newest.held if m not in outcome.held]

    def _manifest(
        self, taken: Taken, outcome: Outcome, files: list[FileMark], stats: RoundStats
    ) -> Manifest:
        newest, number, source = self._ledger.newest, taken.round.id, taken.source
        keep = {**(newest.keep if newest else {}), **outcome.keep}
        # what a family still needs it restores by its manifests, and by the one before: what came
        # up to there
        first = max(
            0, min([number + 1 - self._config.manifests_kept, *(k - 1 for k in keep.values())])
        )
        mark = self._catalog.mark(taken.catalog_version)
        assert mark is not None, "the newest marks are always known"
        catalog = (taken.catalog_version, mark)
        return Manifest(
            number,
            source.checkpoint_id,
            self._home.epoch,
            *catalog,
            first,
            taken.round.newest_us,
            source.offsets,
            source.chain,
            taken.inputs,
            tuple(files),
            keep,
            asdict(stats),
            outcome.held,
            outcome.choices,
        )

    def _write_answers(self, round_id: int, outcome: Outcome) -> FileMark:
        data = pack(outcome.blocks)
        path = shared_path(self._ledger.folder, round_id)
        self._home.disk.put(path, data)
        return mark_of(path, data)

    def _sync_folders(self, files: list[FileMark]) -> None:
        for part in sorted(
            {str(p) for f in files for p in PurePosixPath(f.path).parents}, reverse=True
        ):
            if part.startswith(f"{self._ledger.folder}/"):
                self._home.disk.sync(part)

    def _stats(self, taken: Taken, outcome: Outcome, watch: Stopwatch) -> RoundStats:
        round = taken.round
        census = round.census
        return RoundStats(
            self._stream,
            round.id,
            census.rows,
            census.late,
            census.no_time,
            census.bad,
            taken.queries,
            outcome.answers,
            round.watermark_us,
            watch.total(),
            round.watermark_before_us,
            {**taken.priced, **outcome.priced},
            outcome.figures,
            peak_bytes(),
        )

    def _sweep(self, newest: Manifest) -> None:
        """Remove state that no query needs any more, and answers whose manifest has gone."""
        limits = {"answers": newest.first_round, "dead": newest.first_round, **newest.keep}
        for kind, limit in limits.items():
            kept, swept = newest.round_id - limit, self._swept.get(kind, 0)
            # looking through a long list every round would cost more than it frees
            if limit - swept <= kept // 100:
                continue
            self._swept[kind] = limit
            place = self._home.disk.root / self._ledger.folder / kind
            for path in place.iterdir():
                number = path.name.partition(".")[0]
                if number.isdigit() and int(number) < limit:
                    inside = f"{self._ledger.folder}/{kind}/{path.name}"
                    self._home.disk.clear(inside) if path.is_dir() else self._home.disk.remove(
                        inside
                    )
