"""The jinja2 templates of all pages and reports: they escape whatever is put in, blank letters that are not seen."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from daskevo_plugins.dashboard.colours import style_variables
from daskevo_plugins.formatting import FILTERS

OURS = "daskevo_plugins.dashboard"


def render(template: str, package: str = OURS, /, **parts: Any) -> Markup:
    """Return a filled template from the folder `templates` of a package; it may use those of this one."""
    return Markup(_environment(package).get_template(template).render(parts))


def visible(value: object) -> object:
    """Return a text with blanks for letters that are not seen, or that turn its direction; markup as it is."""
    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    return "".join(letter if letter.isprintable() else " " for letter in value)


def say_age(seconds: float) -> str:
    """Return whole seconds, minutes or hours, formatted like the page's script.

    Examples
    --------
    >>> say_age(7.9), say_age(75), say_age(7300)
    ('7 s', '1 min', '2 h')
    """
    whole = max(0, int(seconds))
    return f"{whole} s" if whole < 60 else f"{whole // 60} min" if whole < 3600 else f"{whole // 3600} h"


@cache
def _environment(package: str) -> Environment:
    made = Environment(
        # Reports extend the dashboard's base template, and may have templates of the same name.
        loader=ChoiceLoader([PackageLoader(one) for one in dict.fromkeys((package, OURS))]),
        autoescape=True,
        # A misspelt name is an error, and not a blank that nobody misses.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=visible,
    )
    made.globals["colours"] = style_variables()
    made.filters |= {**FILTERS, "age": say_age}
    return made
