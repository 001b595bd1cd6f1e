"""Model files."""

from opttree.model.files import Model as Model, load as load, save as save

__all__ = ["Model", "load", "save"]
