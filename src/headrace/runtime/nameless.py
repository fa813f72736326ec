"""A user without a name, as containers have them (`docker run --user 12345`).

Hadoop's file systems want to know who is logged in, and ask Java, which asks the list of users
(`/etc/passwd`); a user who is not there has no name, and Spark ends with a NullPointerException of
Java's login module.  No environment variable helps: they are read only after that module.  But the
user that Hadoop takes for logged in can be said, once Java runs and before Spark does.

The name is for Hadoop's messages only: files belong to the number, as Linux has it.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping

from headrace.errors import HeadraceError


def user_name() -> str | None:
    """Of this process's user; None where Linux knows but a number."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return None


def chosen_name() -> str:
    """As Spark and Hadoop let a user choose."""
    chosen = os.environ.get("SPARK_USER") or os.environ.get("HADOOP_USER_NAME")
    return chosen or f"uid-{os.getuid()}"


def log_in(settings: Mapping[str, str]) -> None:
    """For a user without a name: start Java, unless it runs, and tell Hadoop who this is.
    `settings`: what Spark is to be started with."""
    if user_name() is not None:
        return
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext

    if SparkContext._active_spark_context is not None:
        return  # somebody has solved it
    SparkContext._ensure_initialized(conf=SparkConf().setAll(list(settings.items())))
    assert SparkContext._jvm is not None
    try:
        hadoop = SparkContext._jvm.org.apache.hadoop.security.UserGroupInformation
        hadoop.setLoginUser(hadoop.createRemoteUser(chosen_name()))
    except (Py4JError, TypeError) as error:
        raise HeadraceError(
            "Spark needs a user with a name",
            value=f"user {os.getuid()}, who has no line in /etc/passwd",
            hint="give the image one: RUN useradd --uid "
            f"{os.getuid()} headrace; or run as a user who has one",
            code="NO_USER_NAME",
        ) from error
