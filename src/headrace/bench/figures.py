"""The README's table of figures, out of results that benchmarks have saved; misses included.

headrace bench windows --json docs/figures/windows.json
make figures
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
FOLDER, README = Path("docs/figures"), Path("README.md")


@dataclass(frozen=True, slots=True)
class Line:
    """A figure of a benchmark and what it should be: at least, or at most, so much; or it is only
    shown."""

    bench: str
    figure: str
    what: str
    least: float | None = None
    most: float | None = None
    unit: str = ""

    @property
    def wanted(self) -> str:
        if self.least is None and self.most is None:
            return "—"
        return (
            f"≥ {self.least:g}{self.unit}"
            if self.least is not None
            else f"≤ {self.most:g}{self.unit}"
        )

    def is_met(self, value: float) -> bool:
        return (self.least is None or value >= self.least) and (
            self.most is None or value <= self.most
        )


LINES = (
    Line(
        "windows",
        "headrace_1000_ratio",
        "1,000 window queries, rows/s against plain Spark running one",
        least=0.9,
    ),
    Line(
        "windows",
        "headrace_1000_ratio_to_tumbling_tuned",
        "the same, that Spark with our checkpoint setting too",
        least=0.9,
    ),
    Line(
        "windows",
        "headrace_10000_ratio",
        "10,000 window queries against plain Spark running one",
        least=0.7,
    ),
    Line(
        "windows",
        "headrace_10000_ratio_to_tumbling_tuned",
        "the same, that Spark with our checkpoint setting too",
        least=0.7,
    ),
    Line(
        "windows",
        "headrace_1000_round_s",
        "a round of 200,000 rows, 1,000 queries",
        most=1,
        unit=" s",
    ),
    Line(
        "windows",
        "headrace_10000_round_s",
        "a round of 200,000 rows, 10,000 queries",
        most=1,
        unit=" s",
    ),
    Line(
        "windows",
        "headrace_10000_plan_ms",
        "planning one more query beside 10,000",
        most=50,
        unit=" ms",
    ),
    Line(
        "predicates",
        "market_one_attribute_ratio",
        "2,000 different predicates on the price, rows/s against none",
        least=0.5,
    ),
    Line(
        "predicates",
        "wide_one_attribute_ratio",
        "the same, prices that range over all constants in every group",
        least=0.5,
    ),
    Line(
        "predicates",
        "market_two_attributes_ratio",
        "2,000 different predicates on price and quantity",
        least=0.5,
    ),
    Line(
        "predicates",
        "wide_two_attributes_ratio",
        "the same, prices that range over all constants in every group",
        least=0.5,
    ),
    Line("sketches", "headrace_rows_s", "200 queries of distinct counts and percentiles, rows/s"),
    Line("sketches", "spark_rows_s", "plain Spark running one of them"),
    Line(
        "groups",
        "stated_mb",
        "1,000,000 groups that come and go × 50 windows: memory stated",
        unit=" MB",
    ),
    Line("groups", "peak_over_stated", "what the process grew by, against that", unit="×"),
    Line("groups", "month_log_mb", "30 days by a day beside 10 s: the pane log", unit=" MB"),
    Line("groups", "month_log_unfolded_mb", "the same, if it were not folded", unit=" MB"),
    Line(
        "cost",
        "worst_ratio",
        "EXPLAIN's estimate of a round against what it took, the worst workload",
        most=1.5,
        unit="×",
    ),
    Line(
        "cost",
        "1000_growing_to_4000_ratio",
        "the same, 3,000 queries added before any round had them",
        most=1.5,
        unit="×",
    ),
    Line(
        "accuracy",
        "worst_error",
        "sums, means and deviations over 10⁹ rows, relative error",
        most=1e-9,
    ),
    Line(
        "joins",
        "band_ratio",
        "100,000 band joins, events/s of the kernel against the best method without groups",
        50,
        unit="×",
    ),
    Line(
        "joins",
        "band_kept",
        "what is left of its speed from 500 to 500,000 band joins",
        1 / 3,
        unit="×",
    ),
    Line(
        "joins",
        "select_ratio",
        "100,000 select-joins, the same against the best without groups",
        10,
        unit="×",
    ),
    Line(
        "joins",
        "spark_band_events_per_s",
        "100,000 band joins on Spark, events/s, with records of who is affected",
        100_000,
    ),
    Line(
        "joins",
        "spark_band_ratio",
        "the same against Spark's own batch join of events, queries and rows",
        100,
        unit="×",
    ),
    Line("joins", "spark_select_events_per_s", "100,000 select-joins on Spark, events/s"),
    Line(
        "joins",
        "routing_to_best",
        "routing, events/s against the best single method, the worst of 18 workloads",
        1,
        unit="×",
    ),
    Line(
        "joins",
        "routing_opt_ratio",
        "OPT, which knows the true cost, against routing, the same",
        most=1.5,
        unit="×",
    ),
    Line(
        "joins",
        "change_500000_ms",
        "one more or one less of 500,000 band joins: levels and hotspots",
        most=1,
        unit=" ms",
    ),
    Line(
        "joins",
        "spark_change_ms",
        "one more or one less through SQL, of 1,000 each beside 100,000, to the next plan",
        most=1,
        unit=" ms",
    ),
    Line(
        "joins",
        "histogram_20_error",
        "how many of 100,000 ranges hold a value, by 20 buckets: error",
        most=0.15,
    ),
    Line("weave", "plan_2000_divisors_s", "Weave Share, 2,000 windows", most=1, unit=" s"),
    Line("weave", "plan_100000_divisors_s", "Weave Share, 100,000 windows", most=60, unit=" s"),
    Line("weave", "plan_1000000_divisors_s", "Weave Share, 1,000,000 windows", unit=" s"),
    Line("weave", "add_100000_rate_50_ms", "one more window beside 100,000", most=10, unit=" ms"),
    Line(
        "weave",
        "add_odd_100000_rate_50_ms",
        "the same, of a slide the plan has not, at worst",
        most=10,
        unit=" ms",
    ),
)


def table(folder: Path) -> str:
    """Markdown; a benchmark without saved results has no lines."""
    results = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    rows = [
        f"| {line.what} | {line.wanted} | {_shown(line, float(results[line.bench][line.figure]))} | "
        f"`headrace bench {line.bench}` |"
        for line in LINES
        if line.bench in results
    ]
    places = dict.fromkeys(
        f"{r['cores']} cores, Python {r['python']}, commit {r['commit']}" for r in results.values()
    )
    head = ["| | wanted | measured | command |", "|---|---|---|---|"]
    return "\n".join(
        [*head, *rows, "", f"On {'; '.join(places)}. Peers and ours in one run, taking turns."]
    )


def rewrite(text: str, folder: Path) -> str:
    """The README with the table anew."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, f"no {BEGIN} … {END} in the text"
    return f"{before}{BEGIN}\n{table(folder)}\n{END}{after}"


def _shown(line: Line, value: float) -> str:
    text = f"{value:#.3g}{line.unit}"
    return text if line.is_met(value) else f"**{text}: missed**"


if __name__ == "__main__":
    README.write_text(rewrite(README.read_text(), FOLDER))
