"""The part of a study's page that is rendered again only when there is news of it."""

from __future__ import annotations

from daskevo_plugins.dashboard.news import StudyNews
from daskevo_plugins.dashboard.stage_tree import describe, tree_svg
from daskevo_plugins.dashboard.templates import render


def study_part(news: StudyNews) -> str:
    """Return the figures, who trains what, and the stage tree."""
    tree = news.tree and tree_svg(news.tree, name="stages", quality=news.metric)
    return render("study.html.j2", news=news, tree=tree, described=news.tree and describe(news.tree))
