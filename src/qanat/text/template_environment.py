"""The sandbox in which a checkpoint's chat template runs.

A template is a program from a stranger. It sees plain data only (see `template_data`), can neither
change it nor reach Python's internals, and its loops, recursion and output are bounded. The dialect
of Jinja is the one that transformers offers (docs/frontend.md section 8), so that templates written
for it give the same text here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn

from jinja2 import Environment, Template, meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.exceptions import TemplateError as JinjaError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from qanat.text.template_limits import BOUNDED_OPERATORS, bounded_filters, check_call, check_operator, joined

__all__ = ["MAX_PROMPT_CHARACTERS", "RENDER_SECONDS", "CompiledTemplate", "compile_template"]

MAX_PROMPT_CHARACTERS = 1 << 26  # far more than fits any context; a template that writes more is broken
RENDER_SECONDS = 20.0  # honest conversations take milliseconds

_deadline: ContextVar[float] = ContextVar("template_deadline")


class _GenerationTag(Extension):
    """`{% generation %}...{% endgeneration %}`: marks what the assistant wrote; renders its body."""

    tags = {"generation"}  # noqa: RUF012 - jinja's own class attribute

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("written_by_assistant"), [], [], body).set_lineno(line)

    @staticmethod
    def written_by_assistant(caller: Callable[[], str]) -> str:
        return caller()


class _StepClock(Extension):
    """Looks at the clock in every turn of a loop and every call of a macro."""

    def bound(self, template: nodes.Template) -> None:
        """Insert the look at the clock into each loop and macro of a parsed template, and bound every `~`."""
        _BoundedJoins(self).visit(template)
        bodies: list[nodes.For | nodes.Macro | nodes.CallBlock] = []
        for kind in (nodes.For, nodes.Macro, nodes.CallBlock):
            bodies.extend(template.find_all(kind))
        for owner in bodies:
            look = nodes.ExprStmt(self.call_method("check"), lineno=owner.lineno)
            look.set_environment(self.environment)
            owner.body.insert(0, look)

    joined = staticmethod(joined)

    @staticmethod
    def check() -> None:
        if time.monotonic() > _deadline.get():
            raise JinjaError(f"The chat template ran for more than {RENDER_SECONDS:g} s and was stopped.")


class _BoundedJoins(NodeTransformer):
    """Turns each `a ~ b` into a call that looks at the length first."""

    def __init__(self, clock: _StepClock) -> None:
        self._clock = clock

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 - the visitor's convention
        self.generic_visit(node)
        call = self._clock.call_method("joined", node.nodes, lineno=node.lineno)
        call.set_environment(self._clock.environment)
        return call


class _TemplateDict:
    """What a template calls `dict`: makes dictionaries, and offers none of the class's attributes."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args, **kwargs)


class _TemplateNamespace(Namespace):
    """What a template calls `namespace`: refuses names with a leading underscore."""

    def __init__(*args: Any, **kwargs: Any) -> None:  # a keyword argument may be called `self`
        target, *rest = args
        fields = dict(*rest, **kwargs)
        for name in fields:
            _refuse_private(name)
        Namespace.__init__(target, fields)

    def __setitem__(self, name: str, value: Any) -> None:
        _refuse_private(name)
        super().__setitem__(name, value)


def _refuse_private(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(
            "Chat templates cannot store underscore-prefixed attributes on a namespace, "
            f"but got {name!r}. Please rename the attribute."
        )


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's immutable sandbox, which also refuses to build giants in one step."""

    intercepted_binops = BOUNDED_OPERATORS

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        check_operator(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        check_call(function, args, kwargs)
        return super().call(context, function, *args, **kwargs)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Plain JSON: unlike Jinja's own filter it leaves `<`, `>`, `&` and `'` as they are."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: str) -> NoReturn:
    raise JinjaError(message)


def _strftime_now(format: str) -> str:
    return datetime.now().strftime(format)


def _environment() -> Environment:
    sandbox = _Sandbox(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, _StepClock, loopcontrols]
    )
    sandbox.filters["tojson"] = _tojson
    sandbox.filters.update(bounded_filters(sandbox.filters))
    del sandbox.globals["lipsum"]  # writes any amount of nonsense, outside of the clock's reach
    sandbox.globals.update(
        raise_exception=_raise_exception,
        strftime_now=_strftime_now,
        dict=_TemplateDict(),
        namespace=_TemplateNamespace,
    )
    return sandbox


class CompiledTemplate:
    """A template's text, compiled once.

    Attributes:
        variables: names the template reads and does not set itself.
        literals: all text the template can write of its own, pieces joined by NUL characters.
    """

    def __init__(self, source: str) -> None:
        environment = _environment()
        tree = environment.parse(source)
        self.variables = frozenset(meta.find_undeclared_variables(tree))
        texts = {node.data for node in tree.find_all(nodes.TemplateData)}
        texts.update(node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, str))
        self.literals = "\0".join(sorted(texts))
        clock = next(e for e in environment.extensions.values() if isinstance(e, _StepClock))
        clock.bound(tree)
        self._template: Template = environment.from_string(tree)

    def render(self, variables: Mapping[str, Any]) -> str:
        """Run the template over plain data; whatever Jinja or the template raises passes through."""
        token = _deadline.set(time.monotonic() + RENDER_SECONDS)
        try:
            pieces: list[str] = []
            room = MAX_PROMPT_CHARACTERS
            for piece in self._template.generate(variables):
                pieces.append(piece)
                room -= len(piece)
                if room < 0:
                    raise JinjaError(f"The chat template wrote more than {MAX_PROMPT_CHARACTERS} characters.")
            return "".join(pieces)
        finally:
            _deadline.reset(token)


@lru_cache(maxsize=32)
def compile_template(source: str) -> CompiledTemplate:
    """Compile a template (cached by its text); raises jinja2.TemplateSyntaxError."""
    return CompiledTemplate(source)
