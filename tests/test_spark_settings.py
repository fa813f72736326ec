"""Settings of Spark from outside: read, and refused where answers or the gate depend on them."""

from __future__ import annotations

import pytest

from headrace.config import Config
from headrace.errors import HeadraceError
from headrace.runtime.session import _HERE, _SESSION, _STATIC
from headrace.spark_settings import JOINED, PACKAGES, merged, parse_pairs, parse_text, refusal

FREE = {
    # about this machine's screen and memory, not about answers
    "spark.ui.enabled",
    "spark.ui.showConsoleProgress",
    "spark.ui.retainedJobs",
    "spark.ui.retainedStages",
    "spark.ui.retainedTasks",
    "spark.cleaner.periodicGC.interval",
    *JOINED,
}


@pytest.mark.parametrize("key", sorted({*_STATIC, *_SESSION} - FREE))
def test_what_headrace_sets_nobody_replaces(key: str) -> None:
    assert refusal(key) is not None


@pytest.mark.parametrize("key", sorted(FREE | set(_HERE)))
def test_but_for_what_changes_no_answer(key: str) -> None:
    assert refusal(key) is None


@pytest.mark.parametrize(
    "key",
    [
        "spark.sql.ansi.enabled",
        "spark.sql.session.timeZone",
        "spark.sql.caseSensitive",
        "spark.sql.legacy.timeParserPolicy",
        "spark.sql.extensions",
        "spark.sql.catalog.spark_catalog",
        "spark.sql.artifact.isolation.enabled",
        "spark.sql.parquet.filterPushdown",
        "spark.plugins",
        "spark.driver.userClassPathFirst",
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version",
        "spark.hadoop.fs.permissions.umask-mode",
        "spark.python.worker.module",
        "spark.master",
        "spark.driver.memory",
        "spark.sql.shuffle.partitions",
    ],
)
def test_what_answers_or_the_gate_depend_on_is_refused(key: str) -> None:
    for give in (
        lambda: Config.of(spark={key: "x"}),
        lambda: parse_pairs([f"{key}=x"], "--conf"),
        lambda: parse_text(f"{key}=x"),
        lambda: merged(_STATIC, Config(spark={key: "x"}).spark),
    ):
        with pytest.raises(HeadraceError) as told:
            give()
        assert told.value.code == "SPARK_CONF"
        assert key in told.value.what and f"{key}=x" in str(told.value.value)
        assert told.value.hint


@pytest.mark.parametrize(
    "key",
    [
        "spark.executor.memory",
        "spark.cores.max",
        "spark.dynamicAllocation.enabled",
        "spark.kubernetes.namespace",
        "spark.yarn.queue",
        "spark.hadoop.fs.s3a.endpoint",
        "spark.driver.host",
        "spark.pyspark.python",
        "spark.sql.files.maxPartitionBytes",
        "spark.executorEnv.NUMBA_CACHE_DIR",
        "spark.jars.packages",
    ],
)
def test_what_is_about_machines_is_taken(key: str) -> None:
    assert Config.of(spark={key: "x"}).spark == {key: "x"}


def test_the_environment_has_them_on_a_line_or_on_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_SPARK_CONF", "spark.cores.max=4; spark.executor.memory = 2g")
    wanted = {"spark.cores.max": "4", "spark.executor.memory": "2g"}
    assert Config.from_environment().spark == wanted
    monkeypatch.setenv("HEADRACE_SPARK_CONF", "spark.app.name=a;b=c\n\nspark.cores.max=4\n")
    assert Config.from_environment().spark == {"spark.app.name": "a;b=c", "spark.cores.max": "4"}
    monkeypatch.setenv("HEADRACE_SPARK_CONF", "")
    assert Config.from_environment().spark == {}


@pytest.mark.parametrize("text", ["spark.cores.max", "=4", "cores=4", "spark.a b=4"])
def test_what_is_no_setting_is_said(text: str) -> None:
    with pytest.raises(HeadraceError, match="SPARK_CONF"):
        parse_text(text)


def test_what_is_not_a_mapping_of_texts_is_said() -> None:
    with pytest.raises(HeadraceError, match="setting spark must be a mapping"):
        Config.of(spark="spark.cores.max=4")
    with pytest.raises(HeadraceError, match="is a text, with a text"):
        Config.of(spark={"spark.cores.max": 4})


def test_a_secret_among_them_is_not_printed() -> None:
    Config.of(spark={"spark.hadoop.fs.s3a.secret.key": "hunter2hunter2"})
    assert "hunter2" not in str(HeadraceError("what came of hunter2hunter2"))


def test_ours_and_theirs_stand_beside_each_other() -> None:
    ours = {JOINED[0]: "-Da", PACKAGES: "a:b:1", "spark.ui.enabled": "false"}
    given = {JOINED[0]: "-Dc", PACKAGES: "d:e:2", "spark.ui.enabled": "true"}
    assert merged(ours, given) == {
        JOINED[0]: "-Da -Dc",
        PACKAGES: "a:b:1,d:e:2",
        "spark.ui.enabled": "true",
    }


def test_settings_may_still_be_compared_and_hashed() -> None:
    assert hash(Config.of(spark={"spark.cores.max": "4"})) == hash(Config())
    assert Config.of(spark={"spark.cores.max": "4"}) != Config()
