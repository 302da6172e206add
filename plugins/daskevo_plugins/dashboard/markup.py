"""Building blocks of pages: tables, cards, ages, states. All text is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlencode

from daskevo.tuning.tree_svg import said_plainly
from daskevo_plugins.dashboard.latest_news import Shown
from daskevo_plugins.dashboard.news import Standing

STANDINGS: dict[Standing, str] = {
    "running": "running",
    "ended": "ended",
    "stopped": "stopped",
    "gone": "gone: its process has left the cluster",
}


class Html(str):
    """HTML made by this package, with all text escaped."""

    __slots__ = ()


def html(words: object) -> str:
    """Escape text; return `Html` unchanged."""
    return words if isinstance(words, Html) else said_plainly(str(words))


def cards(rows: Iterable[tuple[object, object, object]]) -> str:
    """Return a list of figures: name, value and note of each."""
    items = "".join(
        f"<li><small>{html(name)}</small><b>{html(value)}</b><small>{html(note)}</small></li>"
        for name, value, note in rows
    )
    return f'<ul class="cards">{items}</ul>'


def table(
    title: str, heads: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Iterable[int] = (), note: str = ""
) -> str:
    """Return a table with a caption and row headers in the first column; empty if it has no rows.

    Parameters
    ----------
    numbers:
        Right-aligned columns.
    note:
        Text below it.
    """
    right = set(numbers)
    kinds = [' class="number"' if place in right else "" for place in range(len(heads))]
    body = "".join(
        "<tr>"
        + "".join(
            f'<th scope="row"{kind}>{html(cell)}</th>' if place == 0 else f"<td{kind}>{html(cell)}</td>"
            for place, (cell, kind) in enumerate(zip(row, kinds, strict=True))
        )
        + "</tr>"
        for row in rows
    )
    if not body:
        return ""
    head = "".join(f'<th scope="col"{kind}>{html(words)}</th>' for words, kind in zip(heads, kinds, strict=True))
    below = f'<p class="quiet">{html(note)}</p>' if note else ""
    return (
        f'<h3>{html(title)}</h3><div class="wide" tabindex="0" role="region" aria-label="{html(title)}"><table>'
        f'<caption class="unseen">{html(title)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{below}"
    )


def age(seconds: float, *, ago: bool = True) -> Html:
    """Return seconds that the browser keeps counting, without relying on its clock.

    Parameters
    ----------
    ago:
        Whether to show how long ago something was, rather than how long it has lasted.
    """
    kind = "" if ago else " data-for"
    return Html(f'<time data-age="{max(0.0, seconds):.0f}"{kind}>{say_age(seconds)}{" ago" if ago else ""}</time>')


def say_age(seconds: float) -> str:
    """Return whole seconds, minutes or hours, formatted like the page's script.

    Examples
    --------
    >>> say_age(7.9), say_age(75), say_age(7300)
    ('7 s', '1 min', '2 h')
    """
    whole = max(0, int(seconds))
    return f"{whole} s" if whole < 60 else f"{whole // 60} min" if whole < 3600 else f"{whole // 3600} h"


def standing(word: Standing) -> Html:
    """Return a state with its mark."""
    return Html(f'<span class="standing {word}">{STANDINGS[word]}</span>')


def link(words: str, *, is_here: bool = False, page: str = "", **query: str) -> Html:
    """Return a link to a page, by default the current one."""
    current = ' aria-current="true"' if is_here else ""
    return Html(f'<a href="{page}?{html(urlencode(query))}"{current}>{html(words)}</a>')


def name_of(shown: Shown[Any], all_shown: Sequence[Shown[Any]]) -> str:
    """Return the name of a search or study, with the beginning of its id if several have that name."""
    news = shown.news
    others = sum(one.news.name == news.name for one in all_shown)
    return f"{news.name} ({news.key[:8]})" if others > 1 else str(news.name)


def choice_of(what: str, name: str, all_shown: Sequence[Shown[Any]], chosen: Shown[Any], now: float) -> str:
    """Return a list of links to all searches or studies, if there are several.

    Parameters
    ----------
    what:
        What they are, in the plural, for the title.
    name:
        Name of the argument in the page's address.
    """
    if len(all_shown) < 2:
        return ""
    rows = [
        (
            link(name_of(one, all_shown), is_here=one is chosen, **{name: one.news.key}),
            standing(one.news.standing),
            age(now - one.at_s),
        )
        for one in all_shown
    ]
    return table(f"All {what}", (what, "", "last news"), rows)


def empty(words: str) -> str:
    """Return the text for a page with nothing to show; `words` is HTML."""
    return f'<p class="empty">{words}</p>'
