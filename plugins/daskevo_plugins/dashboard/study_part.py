"""All of a study's page that does not change until there are others news of it."""

from __future__ import annotations

from daskevo.tuning.tree_svg import describe, said_plainly, tree_svg
from daskevo_plugins.dashboard.markup import cards, empty, table
from daskevo_plugins.dashboard.news import StudyNews

_TOO_LARGE = "The stage tree is too large to be shown here; <code>daskevo report</code> draws it."
_HOW_TO_READ = (
    "A row goes on as long as its hyper-parameters are the same, bit for bit, as those of a trial; where another "
    "trial's are no longer, a row parts from it below. Point at a bar or a mark to see who needs it, and who trains it."
)


def study_part(news: StudyNews) -> str:
    """Return the figures, who trains what, and the stage tree."""
    trainers = table("Who trains", ("trainer", "steps", "needed by"), news.trainers)
    return f"{cards(news.cards)}{trainers}<h3>The stage tree</h3>{_tree(news)}"


def _tree(news: StudyNews) -> str:
    if news.tree is None:
        return empty(_TOO_LARGE)
    drawing = tree_svg(news.tree, name="stages", title="The stage tree", quality=news.metric)
    return (
        f'<figure><div class="drawing" tabindex="0" role="region" aria-label="The stage tree">{drawing}</div>'
        f"<figcaption>{said_plainly(describe(news.tree))} {_HOW_TO_READ}</figcaption></figure>"
    )
