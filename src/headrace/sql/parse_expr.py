"""Expressions, with the precedence of Spark's grammar.

One loop, `expression(power)`, reads operators that bind tighter than `power` (operator-precedence
parsing). Nesting is counted, and the depth of the tree that chains such as 1+1+1+… build is limited
with it; chains of AND and of OR are balanced instead, as Spark does, so thousands of conditions are
fine.
"""

from __future__ import annotations

from headrace.errors import SQLError
from headrace.sql import literals
from headrace.sql.parse_core import RESERVED
from headrace.sql.parse_literal import CONSTANT_WORDS, LiteralParser
from headrace.sql.syntax import Apply, Constant, Name, Node, Star
from headrace.sql.text import Token
from headrace.sql.tree import Literal
from headrace.values import INTERVAL, STRING

OR, AND, NOT, PREDICATE, COMPARE, ADD, MULTIPLY, UNARY = 1, 2, 3, 4, 5, 6, 7, 8
_POWER = {
    "OR": OR,
    "AND": AND,
    "=": COMPARE,
    "==": COMPARE,
    "<>": COMPARE,
    "!=": COMPARE,
    "<": COMPARE,
    "<=": COMPARE,
    ">": COMPARE,
    ">=": COMPARE,
    "<=>": COMPARE,
    "+": ADD,
    "-": ADD,
    "||": ADD,
    "*": MULTIPLY,
    "/": MULTIPLY,
    "%": MULTIPLY,
    "DIV": MULTIPLY,
    "IS": PREDICATE,
    "BETWEEN": PREDICATE,
    "IN": PREDICATE,
    "LIKE": PREDICATE,
    "ILIKE": PREDICATE,
    "RLIKE": PREDICATE,
    "REGEXP": PREDICATE,
}
_PATTERNS = {"LIKE": "like", "ILIKE": "ilike", "RLIKE": "rlike", "REGEXP": "rlike"}

_ALONE = "one SELECT over one stream or table"
_AS_JOIN = (
    "write it as a join, FROM r JOIN s ON r.k = s.k: a row comes once for each it meets; NOT IN and "
    "NOT EXISTS have no such form"
)
_CALLABLE = ("LEFT", "RIGHT", "RLIKE", "REGEXP")  # reserved words that are functions too


class ExpressionParser(LiteralParser):
    """Reads one expression from where the cursor is."""

    nesting = 0

    def expression(self, power: int = 0) -> Node:
        self.nesting += 1
        if self.nesting > self.config.sql_depth_max:
            raise self._too_deep(self.token)
        ceiling = PREDICATE if self.token.upper in ("NOT", "!") else UNARY + 1
        left = self._prefix(power)
        while power < (found := self._infix_power()) < ceiling:
            if found == PREDICATE:
                left, ceiling = self._predicate(left), PREDICATE
            elif found <= AND:
                left = self._chain(left, found)
            else:
                token = self.next()
                left = self.apply(_canonical(token.upper), (left, self.expression(found)), token)
        self.nesting -= 1
        return left

    def _infix_power(self) -> int:
        word = self.token.upper
        if word == "NOT":
            word = self.peek(1).upper
            return PREDICATE if word in ("BETWEEN", "IN", *_PATTERNS) else 0
        return _POWER.get(word, 0)

    def apply(self, op: str, args: tuple[Node, ...], token: Token) -> Apply:
        return Apply(op, args, token.at, self.depth_of(args, token))

    def depth_of(self, args: tuple[Node, ...], token: Token) -> int:
        depth = 1 + max((arg.depth for arg in args), default=0)
        if depth > self.config.sql_depth_max:
            raise self._too_deep(token)
        return depth

    def _too_deep(self, token: Token) -> SQLError:
        return self.error(
            f"the expression is nested deeper than sql_depth_max={self.config.sql_depth_max}",
            token,
            hint="split the expression or raise the setting sql_depth_max",
        )

    def _chain(self, first: Node, power: int) -> Node:
        """a AND b AND c …, as a balanced tree: the one Spark builds."""
        word = "AND" if power == AND else "OR"
        token = self.token
        terms = [first]
        while self.take(word):
            terms.append(self.expression(power))
        return self._balanced(word.lower(), terms, token)

    def _balanced(self, op: str, terms: list[Node], token: Token) -> Node:
        if len(terms) == 1:
            return terms[0]
        middle = (len(terms) - 1) // 2 + 1
        return self.apply(
            op,
            (self._balanced(op, terms[:middle], token), self._balanced(op, terms[middle:], token)),
            token,
        )

    def _predicate(self, left: Node) -> Node:
        """IS …, [NOT] BETWEEN, IN, LIKE …: one of them, after a value."""
        negated = self.take("NOT")
        token = self.next()
        word = token.upper
        if word == "IS":
            return self._is(left, token)
        if word == "BETWEEN":
            low = self.expression(PREDICATE)
            self.expect("AND")
            found: Node = self.apply("between", (left, low, self.expression(PREDICATE)), token)
        elif word == "IN":
            found = self.apply("in", (left, *self._choices()), token)
        else:
            found = self._like(left, _PATTERNS[word], token)
        return self.apply("not", (found,), token) if negated else found

    def _is(self, left: Node, token: Token) -> Node:
        negated = self.take("NOT")
        if self.take("NULL") or self.take("UNKNOWN"):
            return self.apply("is_not_null" if negated else "is_null", (left,), token)
        if self.at("TRUE") or self.at("FALSE"):
            found = self.apply(
                "<=>", (left, self.constant(CONSTANT_WORDS[self.token.upper], self.next())), token
            )
        elif self.take("DISTINCT", "FROM"):
            found = self.apply("<=>", (left, self.expression(PREDICATE)), token)
            negated = not negated
        else:
            raise self.error(
                "expected NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM", value=self.token.shown
            )
        return self.apply("not", (found,), token) if negated else found

    def _choices(self) -> tuple[Node, ...]:
        self.expect("(")
        self.refuse_subquery(_AS_JOIN)
        choices = [self.expression()]
        while self.take(","):
            choices.append(self.expression())
            if len(choices) > self.config.sql_in_list_max:
                raise self.error(
                    f"the IN list is longer than sql_in_list_max={self.config.sql_in_list_max:,}"
                )
        self.expect(")")
        return tuple(choices)

    def _like(self, left: Node, op: str, token: Token) -> Node:
        if self.token.upper in ("ANY", "SOME", "ALL") and self.peek(1).upper == "(":
            raise self.error(
                "LIKE ANY and LIKE ALL are not available",
                value=self.token.text,
                hint="write several LIKE with OR or AND",
            )
        args: tuple[Node, ...] = (left, self.expression(PREDICATE))
        if op != "rlike" and self.take("ESCAPE"):
            mark = self.token
            args = (
                *args,
                self.constant(Literal(self.string("the escape character"), STRING), mark),
            )
        return self.apply(op, args, token)

    def refuse_subquery(self, hint: str = _ALONE) -> None:
        if self.token.upper in ("SELECT", "WITH", "FROM", "VALUES") and self.peek(1).upper not in (
            ")",
            ",",
            ".",
        ):
            raise self.error(
                "subqueries are not available in a standing query", value=self.token.text, hint=hint
            )

    def _prefix(self, power: int) -> Node:
        """What an expression may begin with.  Nested ones call `expression` from here or one step
        further: with three frames a level, the deepest text allowed stays within Python's own
        recursion limit."""
        token = self.token
        word = token.upper
        if word in ("NOT", "!") and power < PREDICATE:
            self.next()
            return self.apply("not", (self.expression(NOT),), token)
        if word in ("-", "+"):
            return self._signed(token)
        if word == "(":
            self.next()
            self.refuse_subquery()
            inside = self.expression()
            if self.at(","):
                raise self.error(
                    "expected ), found a row of values", hint="write one value in the parentheses"
                )
            self.expect(")")
            return self._postfix(inside)
        if word == "CASE":
            return self._postfix(self._case(self.next()))
        if self.peek(1).upper == "(" and token.kind in ("word", "quoted"):
            if word in ("CAST", "TRY_CAST"):
                return self._postfix(self._cast(self.next()))
            if word in _CALLABLE or word not in RESERVED:
                return self._postfix(self._call(self.next()))
        return self._postfix(self._leaf(token, word))

    def _signed(self, token: Token) -> Node:
        self.next()
        if token.text == "-" and self.token.kind == "number":
            return self._postfix(self.number(self.next(), "-", token))
        operand = self.expression(UNARY)
        if isinstance(operand, Constant) and operand.type == INTERVAL:
            return self.negated(operand, token) if token.text == "-" else operand
        return self.apply("negate" if token.text == "-" else "plus", (operand,), token)

    def _postfix(self, node: Node) -> Node:
        """`::type`, and the field of a window."""
        while self.at("::") or (self.at(".") and isinstance(node, Apply)):
            token = self.next()
            if token.text == "::":
                node = Apply(
                    "cast", (node,), token.at, self.depth_of((node,), token), to=self.type_name()
                )
            else:
                node = Apply(
                    "field", (node,), token.at, self.depth_of((node,), token), to_field=self.part()
                )
        return node

    def _leaf(self, token: Token, word: str) -> Node:
        following = self.peek(1)
        if token.kind == "number":
            return self.number(self.next(), "", token)
        if token.kind == "string":
            return self.constant(Literal(token.text, STRING), self.next())
        if word in CONSTANT_WORDS:
            return self.constant(CONSTANT_WORDS[word], self.next())
        if word in literals.TYPED and following.kind == "string":
            return self.typed(self.next())
        if word == "INTERVAL" and (following.kind in ("string", "number") or self.at_interval(1)):
            return self.interval(self.next())
        if token.kind == "quoted" or (token.kind == "word" and word not in RESERVED):
            return self._column(token)
        if word == ":":
            raise self.error(
                "parameters are not part of a standing query",
                value=":",
                hint="write the value itself",
            )
        raise self.error("expected an expression", value=token.shown)

    def _column(self, token: Token) -> Name:
        parts = [self.name("a column")]
        while self.at(".") and self.peek(1).upper != "*":
            self.next()
            parts.append(self.part())
        return Name(tuple(parts), token.at)

    def _call(self, token: Token) -> Node:
        """A function by its bare name.  What Spark writes around a call beyond its arguments is
        named and refused."""
        if token.kind == "quoted":
            raise self.error(
                "a function is called by its bare name",
                token,
                value=token.text,
                hint="leave the backquotes out",
            )
        self.expect("(")
        self.refuse_subquery(_AS_JOIN if token.upper == "EXISTS" else _ALONE)
        distinct = self.take("DISTINCT")
        args: list[Node] = []
        while not self.at(")") or args:
            args.append(Star(None, self.next().at) if self.at("*") else self.expression())
            if not self.take(","):
                break
        self._close_call(token)
        filtered = self._filter()
        self._refuse_over()
        depth = self.depth_of((*args, filtered) if filtered else tuple(args), token)
        return Apply(
            token.text.lower(),
            tuple(args),
            token.at,
            depth,
            is_function=True,
            distinct=distinct,
            filter=filtered,
        )

    def _close_call(self, token: Token) -> None:
        if self.token.upper in ("IGNORE", "RESPECT", "ORDER", "FROM", "USING") or self.at("-", ">"):
            raise self.error(
                f"{self.token.text} is not available inside a call",
                value=f"{token.text}(…)",
                hint="give the arguments separated by commas",
            )
        self.expect(")")

    def _filter(self) -> Node | None:
        if not self.take("FILTER", "("):
            return None
        self.expect("WHERE")
        condition = self.expression()
        self.expect(")")
        return condition

    def _refuse_over(self) -> None:
        if self.at("OVER") or self.at("WITHIN", "GROUP"):
            raise self.error(
                f"{self.token.upper} is not available in a standing query",
                value=self.token.text,
                hint="group by window(time, 'range', 'slide') instead",
            )
        if self.at("IGNORE", "NULLS") or self.at("RESPECT", "NULLS"):
            raise self.error(
                "IGNORE NULLS and RESPECT NULLS are not available", value=self.token.text
            )

    def _case(self, token: Token) -> Node:
        parts: list[Node] = [] if self.at("WHEN") else [self.expression()]
        op = "case_of" if parts else "case"
        if not self.at("WHEN"):
            raise self.error("expected WHEN", value=self.token.shown)
        while self.take("WHEN"):
            parts.append(self.expression())
            self.expect("THEN")
            parts.append(self.expression())
        if self.take("ELSE"):
            parts.append(self.expression())
        self.expect("END")
        return self.apply(op, tuple(parts), token)

    def _cast(self, token: Token) -> Node:
        self.expect("(")
        operand = self.expression()
        self.expect("AS")
        to = self.type_name()
        self.expect(")")
        return Apply(
            token.text.lower(), (operand,), token.at, self.depth_of((operand,), token), to=to
        )


def _canonical(word: str) -> str:
    return {"==": "=", "!=": "<>", "||": "concat"}.get(word, word.lower())
