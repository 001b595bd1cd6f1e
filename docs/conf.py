"""Configuration of the site, for Sphinx; ``make docs`` builds it."""

from __future__ import annotations

import sys
from datetime import date
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from types import FunctionType
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import generate
import links
import names
from sphinx_gallery.sorting import ExplicitOrder

import opttree

project = "opttree"
author = "the authors of opttree"
copyright = f"{date.today().year}, {author}"
version = release = opttree.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "examples", "generated/*.md", "gallery/*/*.py", "gallery/*.py"]
templates_path = ["_templates"]
default_role = "py:obj"
myst_enable_extensions = ["colon_fence", "dollarmath", "deflist", "attrs_inline"]
myst_heading_anchors = 3
suppress_warnings = [
    "config.cache",  # functions below cannot be pickled: pages are read anew
    "myst.header",  # parts of the start page begin at their own level
]

# docstrings and the reference
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's sections say them
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
OURS = ("opttree", "solvers")


def _own(fullname: str) -> list[tuple[str, Any]]:
    """The public members of a class that opttree itself defines and describes."""
    kind = resolve_name(":".join(fullname.rsplit(".", 1)))
    found = []
    for base in kind.__mro__:
        if base.__module__.split(".")[0] in OURS:
            found += [(name, value) for name, value in vars(base).items() if not name.startswith("_")]
    members = {name: value for name, value in reversed(found) if getattr(value, "__doc__", None)}
    return sorted(members.items())


def own_methods(fullname: str) -> list[str]:
    """Names of a class's own methods."""
    return [name for name, value in _own(fullname) if isinstance(value, (FunctionType, classmethod, staticmethod))]


def own_properties(fullname: str) -> list[str]:
    """Names of a class's own properties."""
    return [name for name, value in _own(fullname) if isinstance(value, (property, cached_property))]


autosummary_context = {"own_methods": own_methods, "own_properties": own_properties}

# mathematics without a network: MathJax as a package of the index brings it
MATHJAX = Path(__import__("sphinx-mathjax-offline").__file__).parent / "static" / "mathjax"
mathjax_path = "mathjax/tex-chtml.js"

# other projects: their own inventories where there is a network, else the entries that we use
links.write(HERE / "_build" / "inventories")
intersphinx_mapping = {
    name: (url, (None, str(HERE / "_build" / "inventories" / f"{name}.inv"))) for name, url in links.SITES.items()
}
intersphinx_timeout = 2

# the gallery
sphinx_gallery_conf: dict[str, Any] = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "subsection_order": ExplicitOrder(["examples/first", "examples/solvers", "examples/practice", "examples/own"]),
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("opttree", "solvers"),
    "reference_url": {"opttree": None, "solvers": None},
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 0,
    "show_signature": False,
    "capture_repr": ("_repr_html_",),  # tables, and no addresses of objects
    "write_computation_times": False,  # their pages fetch scripts from elsewhere
}

# the look
html_theme = "pydata_sphinx_theme"
html_title = "opttree"
html_static_path = ["_static", str(MATHJAX.parent)]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_favicon = "_static/logo.svg"
html_context = {"default_mode": "auto"}
html_theme_options = {
    "navigation_with_keys": True,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "logo": {"image_light": "_static/logo.svg", "image_dark": "_static/logo.svg", "text": "opttree"},
    "navbar_persistent": [],
    "navbar_end": ["search-button", "theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {
    name: [] for name in ("index", "which", "changelog", "contributing", "exact", "fast", "accurate", "reliability")
}


def setup(app: Any) -> None:
    """Pages made from committed results, before anything is read."""
    generate.write(HERE / "generated")
    app.add_transform(names.Links)
    app.connect("missing-reference", names.resolve)
