"""The one place where text becomes part of SQL: names in backquotes, strings in quotes.

`tests/test_quoting.py` looks for other ways in the whole source.
"""

from __future__ import annotations

# `$` too: Spark puts the value of a variable where a text has ${…}, in a session that does not
# forbid it.
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "$": "\\u0024"}


def quote_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def quote_text(text: str) -> str:
    """A string that Spark's parser reads as exactly these characters."""
    return (
        "'"
        + "".join(_ESCAPES.get(c) or (c if c.isprintable() else _unicode(c)) for c in text)
        + "'"
    )


def _unicode(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"
