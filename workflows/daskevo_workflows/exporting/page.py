"""The page of a model card, as Markdown. Names and values come from records: none of them may be markup."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from daskevo.types import JSON
from daskevo_plugins.formatting import FILTERS, plain, say_quality


def page_of(facts: Mapping[str, Any]) -> str:
    """Return the page of a card's facts, without the facts themselves."""
    quality, space = facts["quality"], facts["space"] or {}
    choices = space.get("choices") or {}
    others = {
        name: say_quality(value) if isinstance(value, float) else value
        for name, value in quality["metrics"].items()
        if name != quality["metric"]
    }
    # Options of a choice may depend on those before it, or on the model so far: then there is no list of them.
    options = {name: some for name, some in choices.items() if isinstance(some, list)}
    more = {"versions": facts.get("versions"), "file": facts.get("file"), "other_metrics": others, "options": options}
    return str(_environment().get_template("card.md.j2").render({**facts, **more}))


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("daskevo_workflows.exporting"),
        # Escapes HTML; `finalize` escapes what means something in Markdown as well.
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=lambda value: value if isinstance(value, Markup) else Markup(_md(value)),
    )
    made.filters |= {**FILTERS, "code": _code, "value": _value}
    return made


def _value(value: JSON, limit: int = 80) -> Markup:
    return Markup(_md(value if isinstance(value, str) else json.dumps(value), limit))


_MARKUP = re.compile(r"([\\`*_{}\[\]()#|~!$@]|:(?=//)|(?<=www)\.)", re.IGNORECASE)
"""What means something in Markdown, or is part of an address, of which code hosts make links."""
_LISTED = re.compile(r"^(\d{0,9})([-+=.])(?=[-+=\s]|$)")
"""What makes a list, a line or a heading at the beginning."""


def _md(text: object, limit: int = 300) -> str:
    r"""Return text that Markdown, and HTML in it, show as it is.

    Examples
    --------
    >>> print(_md("<b>|*x*"))
    &lt;b&gt;\|\*x\*
    """
    escaped = _LISTED.sub(r"\1\\\2", _MARKUP.sub(r"\\\1", plain(text, limit)))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _code(text: object) -> Markup:
    """Return text for a code span."""
    # A backtick would end the span, and a bar ends a table's cell even within one.
    return Markup(plain(text, 300).replace("`", "'").replace("|", "/"))
