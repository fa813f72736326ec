"""From characters to tokens: the first door of the gate.

Caps the length, refuses what no SQL contains (control characters, lone surrogates, NUL), and cuts
the rest into tokens by the rules of Spark's own lexer.  Every token keeps its offset, so that every
later error can point into the text.

Why not sqlglot's parser: it rewrites functions into its own classes, drops offsets and recurses
without a limit.  Our grammar is one SELECT; what it does not name cannot be parsed, so nothing is
dropped unseen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.config import Config
from headrace.errors import SQLError


@dataclass(frozen=True, slots=True)
class Token:
    """`kind`: word, quoted (a backquoted name), string, number, op, hint or end.

    `text` is the word as written, the name or string without its quotes and escapes, or the symbol;
    `upper` is the keyword or symbol this may be, '' for anything quoted.
    """

    kind: str
    text: str
    at: int
    end: int
    upper: str = ""

    @property
    def shown(self) -> str:
        return "the end of the text" if self.kind == "end" else self.text


_NUMBER = r"(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?(?:BD|[LSYDF])?"
_LEXEME = re.compile(
    rf"""(?P<space>\s+|--[^\r\n]*)
    |(?P<comment>/\*)
    |(?P<raw>[rR]'[^']*'|[rR]"[^"]*")
    |(?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |(?P<quoted>`(?:[^`]|``)*`)
    |(?P<number>{_NUMBER}(?![\w]))
    |(?P<word>[^\W\d]\w*)
    |(?P<op><=>|<=|>=|<>|!=|==|\|\||::|[-+*/%=<>(),.;:!])""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_BAD = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufeff]")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[01][0-7]{2}|.)", re.DOTALL)
_ESCAPED = {
    "0": "\0",
    "b": "\b",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "Z": "\x1a",
    "%": "\\%",
    "_": "\\_",
}
_COMMENT_EDGE = re.compile(r"/\*|\*/")


def check_text(sql: str, config: Config) -> None:
    """Refuse what is too long, empty, or not text."""
    if not isinstance(sql, str):
        raise SQLError("a query must be text", value=type(sql).__name__)
    if len(sql) > config.sql_length_max:
        raise SQLError(
            f"the text is longer than sql_length_max={config.sql_length_max:,} characters",
            value=f"{len(sql):,} characters",
            hint="shorten the query or raise the setting sql_length_max",
        )
    if bad := _BAD.search(sql):
        code = f"U+{ord(bad.group()):04X}"
        clean = _BAD.sub("\N{REPLACEMENT CHARACTER}", sql)
        raise SQLError(
            f"{code} is not a character of SQL text", sql=clean, at=bad.start(), value=code
        )
    if not sql.strip():
        raise SQLError("the text is empty", hint="write one SELECT … FROM …")


def tokenize(sql: str, config: Config) -> list[Token]:
    """The tokens of a checked text, with a final `end` token; comments are left out, hints kept."""
    check_text(sql, config)
    tokens: list[Token] = []
    at = 0
    while at < len(sql):
        match = _LEXEME.match(sql, at)
        if match is None:
            raise _unreadable(sql, at)
        kind = match.lastgroup or ""
        end = match.end()
        if kind == "comment":
            end = _comment_end(sql, at)
            if sql.startswith("/*+", at):
                tokens.append(Token("hint", sql[at + 3 : end - 2].strip(), at, end))
        elif kind != "space":
            tokens.append(_token(kind, match.group(), at, end, sql))
        at = end
    tokens.append(Token("end", "", len(sql), len(sql)))
    return tokens


def _token(kind: str, text: str, at: int, end: int, sql: str) -> Token:
    if kind == "quoted":
        return Token("quoted", text[1:-1].replace("``", "`"), at, end)
    if kind == "raw":
        return Token("string", text[2:-1], at, end)
    if kind == "string":
        return Token("string", _unescape(text, at, sql), at, end)
    return Token(kind, text, at, end, "" if kind == "number" else text.upper())


def _unescape(quoted: str, at: int, sql: str) -> str:
    """What Spark makes of a quoted string: backslash escapes, and a doubled quote is one quote."""
    body = quoted[1:-1].replace(quoted[0] * 2, quoted[0])
    if "\\" not in body:
        return body
    text = _ESCAPE.sub(lambda m: _escaped(m.group(1)), body)
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise SQLError(
            "the string holds half of a surrogate pair", sql=sql, at=at, value=quoted
        ) from None


def _escaped(code: str) -> str:
    if len(code) == 1:
        return _ESCAPED.get(code, code)
    number = int(code[1:], 16) if code[0] in "uU" else int(code, 8)
    return chr(number) if number <= 0x10FFFF else "\ud800"  # refused by the caller as half a pair


def _comment_end(sql: str, at: int) -> int:
    """Block comments nest, as in Spark."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(sql, at):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    raise SQLError("a comment is not closed", sql=sql, at=at, hint="close it with */")


def _unreadable(sql: str, at: int) -> SQLError:
    mark = sql[at]
    if mark in "'\"" or (mark in "rR" and sql[at + 1 : at + 2] in ("'", '"')):
        return SQLError(
            "a string is not closed", sql=sql, at=at, hint="close it with the quote it began with"
        )
    if mark == "`":
        return SQLError("a backquoted name is not closed", sql=sql, at=at, hint="close it with `")
    if mark.isdigit() or mark == ".":
        return SQLError(
            "not a number",
            sql=sql,
            at=at,
            value=sql[at : at + 20].split(maxsplit=1)[0],
            hint="write 1, 5L, 2.5, 1e3 or 1.5D; backquote a name that begins with a digit",
        )
    if mark in "?@$":
        return SQLError(
            "parameters and variables are not part of a standing query",
            sql=sql,
            at=at,
            value=mark,
            hint="write the value itself",
        )
    return SQLError("unexpected character", sql=sql, at=at, value=mark)
