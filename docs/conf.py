"""The documentation's site: `sphinx-build docs docs/_build` makes it, without the network.

Pages are plain Markdown that a code host shows as well. Links that leave docs/ lead to examples.md or to the source.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import sys
import tomllib
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SOURCE = f"{PROJECT['urls']['Source']}/blob/main"

# Importing Keras takes longer than all pages, and nothing of it is on them: this is what classes derive from.
sys.modules["keras"] = types.ModuleType("keras")
sys.modules["keras"].callbacks = types.SimpleNamespace(Callback=object)  # type: ignore[attr-defined]

project = "daskevo"
author = copyright = PROJECT["authors"][0]["name"]
release = version = importlib.metadata.version("daskevo")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = ["_build", "measured"]
nitpicky = True
suppress_warnings = ["ref.python"]  # an attribute that two classes have

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_default_options = {"no-value": True}
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
maximum_signature_line_length = 80
python_display_short_literal_types = True
napoleon_google_docstring = False
napoleon_use_param = True
napoleon_use_rtype = False
napoleon_preprocess_types = False
default_role = "py:obj"  # single backticks: a link where the name is in the reference, code where it isn't
# Types in signatures are of other packages, or of rooms that the reference leaves out. Names in prose may be arguments.
# What docstrings say by a role must be in the reference if it is a name of a public module.
PUBLIC_NAME = (
    r"(daskevo\.(repository|search|space|testing|tuning)|daskevo_workflows\.(nas|exporting|tune|problems|tabular))\.\w+"
)
nitpick_ignore_regex = [("py:(class|obj|exc|data)", r".*"), ("py:(func|meth|mod|attr)", rf"(?!{PUBLIC_NAME}$).*")]

smartquotes = False  # or --option becomes –option
html_theme = "furo"
html_title = f"daskevo {release}"
html_static_path = ["_static"]
html_css_files = ["daskevo.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#9a4a00", "color-brand-content": "#9a4a00"},
    "dark_css_variables": {"color-brand-primary": "#ffa25e", "color-brand-content": "#ffa25e"},
}


for _name in ("daskevo.testing", "daskevo_plugins.deephyper"):  # their parts are looked up at first use
    _module = importlib.import_module(_name)
    for _part in _module.__all__:
        getattr(_module, _part)


def lead_out(app: Any, page: str, text: list[str]) -> None:
    """Have links that leave docs/ lead to an example's place in the site, or to the source on its host."""

    def elsewhere(match: re.Match[str]) -> str:
        path = match[1]
        example = re.fullmatch(r"examples/(\w+)\.py", path)
        return f"](examples.md#{example[1]}py)" if example else f"]({SOURCE}/{path})"

    text[0] = re.sub(r"\]\((?:\.\./)+([^)\s]+)\)", elsewhere, text[0]) if "/" not in page else text[0]


def setup(app: Any) -> None:
    app.connect("source-read", lead_out)
