"""Expressions over columns of Arrow, evaluated as Spark would: without Spark, wherever answers are
made or read."""
