"""The `headrace` command: one module for each group of commands."""

from headrace.cli.app import main

__all__ = ["main"]
