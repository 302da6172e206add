"""The page of the studies of a cluster, as HTML: what is known of the board, and nothing else.

All that came in news is escaped; the only markup in it is ours.
"""

from __future__ import annotations

from urllib.parse import quote

from daskevo.tuning.tree_svg import said_plainly
from daskevo_plugins.dashboard.board import Board, Shown
from daskevo_plugins.dashboard.news import Standing

_SAID: dict[Standing, str] = {
    "running": "running",
    "ended": "ended",
    "stopped": "stopped",
    "gone": "gone: its process has left the cluster",
}
_HEADS = ("study", "", "last news")
_NOTHING = (
    "No study has been seen on this cluster yet. One that is begun with <code>daskevo tune</code> or "
    "<code>daskevo_workflows.tune.study</code> appears here by itself."
)
_TOO_LARGE = "The stage tree is too large to be shown here; <code>daskevo report</code> draws it."
_HOW_TO_READ = (
    "A row goes on as long as its hyper-parameters are the same, bit for bit, as those of a trial; where another "
    "trial's are no longer, a row parts from it below. Point at a bar or a mark to see who needs it, and who trains it."
)


def studies_now(board: Board, chosen: str = "") -> str:
    """Return what the page shows at this moment.

    Parameters
    ----------
    chosen:
        The study whose tree is shown; the first one if there is none of that name.
    """
    studies = board.studies()
    if not studies:
        return f'<p class="empty">{_NOTHING}</p>'
    shown = next((one for one in studies if one.news.study == chosen), studies[0])
    now = board.clock()
    return "\n".join((_list(studies, shown, now) if len(studies) > 1 else "", _study(shown, now)))


def _list(studies: list[Shown], chosen: Shown, now: float) -> str:
    rows = "".join(
        f'<tr><th scope="row">{_link(one, one is chosen)}</th><td>{_standing(one)}</td><td>{_age(one, now)}</td></tr>'
        for one in studies
    )
    heads = "".join(f'<th scope="col">{head}</th>' for head in _HEADS)
    return f'<table class="studies"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'


def _link(shown: Shown, is_chosen: bool) -> str:
    current = ' aria-current="true"' if is_chosen else ""
    return f'<a href="?study={quote(shown.news.study, safe="")}"{current}>{said_plainly(shown.news.name)}</a>'


def _study(shown: Shown, now: float) -> str:
    news = shown.news
    cards = "".join(
        f"<li><small>{said_plainly(card.name)}</small><b>{said_plainly(card.value)}</b>"
        f"<small>{said_plainly(card.note)}</small></li>"
        for card in news.cards
    )
    tree = (
        f'<figure><div class="drawing">{shown.drawing}</div><figcaption>{said_plainly(shown.described)} {_HOW_TO_READ}'
        "</figcaption></figure>"
        if news.tree is not None
        else f'<p class="empty">{_TOO_LARGE}</p>'
    )
    return (
        f"<h2>{said_plainly(news.name)}</h2>"
        f'<p class="quiet">{_standing(shown)} · last news {_age(shown, now)}</p>'
        f'<ul class="cards">{cards}</ul>{_trainers(shown)}<h3>The stage tree</h3>{tree}'
    )


def _trainers(shown: Shown) -> str:
    trainers = shown.news.trainers
    if not trainers:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{said_plainly(one.trainer)}</th><td>{said_plainly(one.steps)}</td>'
        f"<td>{said_plainly(one.trials)}</td></tr>"
        for one in trainers
    )
    return (
        '<h3>Who trains</h3><table class="trainers"><thead><tr><th scope="col">trainer</th><th scope="col">steps</th>'
        f'<th scope="col">needed by</th></tr></thead><tbody>{rows}</tbody></table>'
    )


def _standing(shown: Shown) -> str:
    standing = shown.news.standing
    return f'<span class="standing {standing}">{_SAID[standing]}</span>'


def _age(shown: Shown, now: float) -> str:
    # Goes on in the browser, whose clock may be another one.
    age = max(0.0, now - shown.at_s)
    return f'<time data-age="{age:.0f}">{age:.0f} s ago</time>'
