"""A report as a model card of Hugging Face: metadata in YAML, and a section to be put into the card."""

from __future__ import annotations

import json
import math
from typing import Any

from pabi.numbers.showing import exact
from pabi.reports.contents import Report
from pabi.reports.page import as_sections

_TAGS = ("differential-privacy", "pabi")


def as_model_card(report: Report, _: Any = None) -> str:
    """The report as metadata and a section."""
    tags, facts = (f"- {tag}" for tag in _TAGS), (f"  {n}: {yaml(v)}" for n, v in report.metadata)
    lines = ["---", "tags:", *tags, "differential_privacy:", *facts]
    return "\n".join([*lines, "---", "", "# Privacy", "", as_sections(report.sections, "##")])


def yaml(value: str | float | bool | None) -> str:
    """A scalar of YAML. Text is quoted as in JSON; a number has a point, or 1e-05 would be read as text."""
    if value is None or isinstance(value, (str, bool)):
        return json.dumps(value).replace("<", "\\u003c")  # no tag, whoever reads it as Markdown
    if math.isinf(value):
        return ".inf"
    mantissa, mark, exponent = exact(value).partition("e")
    return mantissa + ".0" * ("." not in mantissa) + mark + exponent
