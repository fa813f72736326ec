"""The whole suite in two lanes side by side: the engine on Spark; and everything else, with the tests
that kill processes, which start a Spark of their own anyway.

    python -m tests.lanes -m "not slow and not nightly"

Each lane is a pytest of its own with a Spark of its own; both draw from one seed.  The first lane is
seen as it runs, what the second printed follows.  With the path of a test there is one pytest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic

from tests.seeds import run_seed

TESTS = Path("tests")
ENGINE = TESTS / "engine"
KILLS = ("test_join_survival.py", "test_survival.py")
NO_TESTS = 5  # what pytest ends with where nothing was selected


def lanes() -> list[list[str]]:
    kills = [ENGINE / name for name in KILLS]
    others = [p for p in sorted(TESTS.iterdir()) if p != ENGINE and (p.is_dir() or _is_test(p))]
    return [
        [str(ENGINE), *(f"--ignore={path}" for path in kills)],
        [str(path) for path in (*others, *kills)],
    ]


def _is_test(path: Path) -> bool:
    return path.name.startswith("test_") and path.suffix == ".py"


def main(args: list[str]) -> int:
    pytest = [sys.executable, "-m", "pytest", "-q"]
    if any(Path(arg.partition("::")[0]).exists() for arg in args):
        return subprocess.run([*pytest, *args], check=False).returncode
    print(f"two lanes; seed: {run_seed()}", flush=True)  # both inherit it
    first, second = ([*pytest, *args, *own] for own in lanes())
    start = monotonic()
    with tempfile.TemporaryFile() as output:
        other = subprocess.Popen(second, stdout=output, stderr=subprocess.STDOUT)
        try:
            codes = [subprocess.run(first, check=False).returncode, other.wait()]
        except BaseException:
            other.terminate()
            other.wait()
            raise
        output.seek(0)
        print("\n-- the other lane", flush=True)
        sys.stdout.buffer.write(output.read())
    print(f"both lanes: {monotonic() - start:.0f} s", flush=True)
    return max((code for code in codes if code != NO_TESTS), default=NO_TESTS)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main(sys.argv[1:]))
