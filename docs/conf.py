"""How the documentation is built: `make docs`, or `sphinx-build -W -n -b html docs docs/_build/html`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy.typing
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

sys.path[:0] = [str(Path(__file__).parent / "_ext"), str(Path(__file__).parent.parent / "src")]


class Array:
    """Any array, in signatures; NDArray would be shown as the twenty words that it stands for."""

    def __class_getitem__(cls, item: Any) -> type[Array]:
        return cls


class ArrayLike:
    """What numpy makes an array of, in signatures."""


for shown in (Array, ArrayLike):
    shown.__module__ = "numpy.typing"
numpy.typing.NDArray, numpy.typing.ArrayLike = Array, ArrayLike  # before pabi reads them

from pabi import __version__  # noqa: E402

project = "pabi"
author = "the authors of pabi"
copyright = "the authors of pabi"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "command_line",
    "dark_pictures",
    "docstrings",
    "formulas",
    "interactive",
]
exclude_patterns = ["_build"]
suppress_warnings = ["config.cache"]
nitpicky = True
# Names of other packages that signatures mention. There is no intersphinx: the build needs no network.
nitpick_ignore_regex = [
    ("py:.*", r"(numpy|np|scipy|matplotlib|sklearn|pandas|typer|xarray|flint)\b.*"),
    (
        "py:class",
        r"Array|Fraction|Kind|Part|Status|pabi\.account\.calibration\.Calibrated|pabi\.execute\.sums\.UserRows"
        r"|pabi\.execute\.sums\.RemoteGradients|OwnGradients|pabi\.execute\.sources\.Parts"
        r"|pabi\.tradeoff\.(base\.(Directed|Readings)|grids\.OfPoints|two_halves\.\w+)"
        r"|pabi\.numbers\.validate\.Checked",
    ),  # not classes, or classes that stay inside
    ("py:.*", r"(collections|typing|typing_extensions|fractions|pathlib|abc|os)\..*"),
]

# Markdown

myst_enable_extensions = ["amsmath", "dollarmath", "deflist", "fieldlist"]
myst_heading_anchors = 4
myst_dmath_double_inline = True

# Mathematics: MathJax lies among the static files, and asks for nothing else. The pages need no network.

mathjax_path = "mathjax/tex-svg.js"
mathjax3_config = {
    "options": {"enableMenu": False},  # the menu loads further files
    "tex": {"packages": {"[-]": ["autoload", "require"]}},  # so do these two
}

# Docstrings: prose with `code` and unicode mathematics.

default_role = "code"
smartquotes = False
autodoc_member_order = "bysource"
autodoc_mock_imports = ["opacus", "torch"]  # which the build does not need
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True
add_module_names = False
python_use_unqualified_type_names = True
toc_object_entries = False
maximum_signature_line_length = 80

# Pages

html_theme = "furo"
html_title = f"pabi {version}"  # shown above the list of pages, and in every page's title
html_short_title = "pabi"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_copy_source = False
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

# Links that `sphinx-build -b linkcheck` follows.

linkcheck_timeout = 20
linkcheck_retries = 2
linkcheck_anchors = False

_ANCHOR = re.compile(r'<a id="([^"]+)">')


class WrittenAnchors(SphinxTransform):
    """Lets links point at `<a id="…"></a>`, which GitHub understands, as they do at headings."""

    default_priority = 800  # headings have their names by now, links are not yet resolved

    def apply(self, **kwargs: object) -> None:
        """Adds the anchors of a page to the names of its headings."""
        slugs = getattr(self.document, "myst_slugs", None)
        if slugs is None:
            return
        for raw in self.document.findall(nodes.raw):
            for name in _ANCHOR.findall(raw.astext()):
                slugs.setdefault(name, (raw.line or 0, name, name))
        self.env.metadata[self.env.docname]["myst_slugs"] = slugs


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(WrittenAnchors)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
