"""Descriptions as tables: the form that they have in run files and certificates."""

from pabi.describe.files import from_dict, to_dict

__all__ = ["from_dict", "to_dict"]
