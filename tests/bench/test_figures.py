"""The README's table says what the saved results say."""

from __future__ import annotations

import json
from pathlib import Path

from headrace.bench.figures import FOLDER, LINES, README, rewrite, table

ROOT = Path(__file__).parents[2]


def save(folder: Path, value: float) -> None:
    figures = {line.figure: value for line in LINES if line.bench == "windows"}
    about = {"cores": "2", "python": "3.11.7", "commit": "abc"}
    (folder / "windows.json").write_text(json.dumps({**figures, **about}))


def test_what_is_missed_is_said(tmp_path: Path) -> None:
    save(tmp_path, 0.8)
    lines = {
        line.split("|")[1].strip(): line
        for line in table(tmp_path).splitlines()
        if line.startswith("|")
    }
    assert (
        "| ≥ 0.9 | **0.800: missed** |"
        in lines["1,000 window queries, rows/s against plain Spark running one"]
    )
    assert "| ≥ 0.7 | 0.800 |" in lines["10,000 window queries against plain Spark running one"]
    assert "| ≤ 1 s | 0.800 s |" in lines["a round of 200,000 rows, 1,000 queries"]
    assert "commit abc" in table(tmp_path)


def test_only_the_table_is_written_anew(tmp_path: Path) -> None:
    save(tmp_path, 1.0)
    text = rewrite("above\n<!-- figures -->\nold\n<!-- end of figures -->\nbelow\n", tmp_path)
    assert text.startswith("above\n") and text.endswith("\nbelow\n") and "old" not in text
    assert rewrite(text, tmp_path) == text


def test_the_readme_is_up_to_date() -> None:
    text = (ROOT / README).read_text()
    assert text == rewrite(text, ROOT / FOLDER), "make figures writes it"
