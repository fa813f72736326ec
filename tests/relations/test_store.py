"""Images that are brought up to date as files come and leave, against those made anew."""

from __future__ import annotations

from pathlib import Path
from random import Random
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from headrace.families.joins.levels.level_store import LevelStore
from headrace.families.joins.plan import BAND, JoinShape
from headrace.relations import image, store
from headrace.relations.image import Image
from headrace.relations.row_files import COMES, GOES, KIND, SIGN, WAS, RowFile, write_table
from headrace.relations.store import INDEX_BITS, Store
from headrace.runtime.family import LATE, OK
from headrace.sql.tree import Column
from headrace.values import BIGINT

SHAPE = JoinShape(("r", "s"), BAND, ((Column("b", BIGINT),), (Column("b", BIGINT, 1),)))
Place = tuple[int, int, int]


class Files:
    """Files of a table r: rows come, and rows that are there go."""

    def __init__(self, root: Path, chance: Random) -> None:
        self.root, self.chance = root, chance
        self.rows: dict[RowFile, list[tuple[int | None, int, int, Place | None]]] = {}

    def write(self, round_id: int, part: int, there: dict[Place, int | None]) -> RowFile:
        goes = self.chance.sample(sorted(there), min(len(there), self.chance.choice([0, 0, 1, 3])))
        comes = [
            (
                self.chance.choice([None, *range(9), 2**63 - 1]),
                self.chance.choice([OK, OK, OK, LATE]),
                COMES,
                None,
            )
            for _ in range(self.chance.randrange(1, 9))
        ]
        rows = [*((there[place], OK, GOES, place) for place in goes), *comes]
        path = f"{round_id}.{part}.{self.chance.random()}.arrow"
        columns = {
            "b": pa.array([r[0] for r in rows], pa.int64()),
            KIND: pa.array([r[1] for r in rows], pa.int8()),
            SIGN: pa.array([r[2] for r in rows], pa.int8()),
        }
        for i, (name, kind) in enumerate(
            zip(WAS, (pa.int64(), pa.int32(), pa.int32()), strict=True)
        ):
            columns[name] = pa.array([r[3] and r[3][i] for r in rows], kind)
        size, crc = write_table(self.root / path, pa.table(columns))
        file = RowFile(path, round_id, part, len(rows), len(comes) - len(goes), None, size, crc)
        self.rows[file] = rows
        return file

    def there(self, files: list[RowFile]) -> dict[Place, int | None]:
        found: dict[Place, int | None] = {}
        for file in files:
            for i, (b, kind, sign, _) in enumerate(self.rows[file]):
                if sign == COMES and kind == OK:
                    found[file.round_id, file.part, i] = b
        for file in files:
            for *_, was in self.rows[file]:
                if was is not None:
                    found.pop(was, None)
        return found


def placed(own: Store, image: Image) -> dict[Place, int]:
    rows = np.concatenate([np.empty(0, np.int64), *(s.row for s in image.segments)])
    values = np.concatenate([np.empty(0, np.int64), *(s.b for s in image.segments)])
    assert all((np.diff(s.b) >= 0).all() for s in image.segments)
    places = [
        (*own.place(row >> INDEX_BITS), row & ((1 << INDEX_BITS) - 1)) for row in rows.tolist()
    ]
    assert len(set(places)) == len(places)
    return dict(zip(places, values.tolist(), strict=True))


@pytest.mark.parametrize("ratio", [8, 1])
def test_images_are_those_made_anew(tmp_path: Path, ratio: int, seed: int) -> None:
    """With rounds that are added, taken back and done again, by a store that keeps few files
    open."""
    chance = Random(seed)
    with patch.object(image, "RATIO", ratio), patch.object(store, "OPEN_MAX", 3):
        for _ in range(15):
            own, files, made = LevelStore(tmp_path), list[RowFile](), Files(tmp_path, chance)
            for round_id in range(8):
                new = list[RowFile]()
                for _ in range(chance.choice([1, 1, 2])):  # the last time counts
                    there = made.there(files)
                    new = [made.write(round_id, 0, there)]
                    new += [made.write(round_id, 1, {})] if chance.random() < 0.5 else []
                    for known in (files, [*files, *new], files):
                        found = placed(own, own.image("r", known, SHAPE, 0))
                        expected = made.there(known)
                        big = (None, 2**63 - 1)  # null, or too large
                        assert found == {place: b for place, b in expected.items() if b not in big}
                files += new


def test_rows_are_found_by_number_in_any_order(tmp_path: Path, seed: int) -> None:
    made, own = Files(tmp_path, Random(seed)), Store(tmp_path)
    files = [made.write(round_id, 0, {}) for round_id in range(4)]
    numbers = [
        (own.number("r", file) << INDEX_BITS) | i for file in files for i in range(file.rows)
    ]
    asked = np.array(Random(seed).choices(numbers, k=50), np.int64)
    expected = [made.rows[files[n >> INDEX_BITS]][n & 0xFFFFFFFF][0] for n in asked.tolist()]
    assert own.rows(asked).column("b").to_pylist() == expected
    assert own.rows(asked, ["b"]).column_names == ["b"]
