"""Model files as an export: JSON, as `opttree.save` writes it."""

from opttree.export.record import Exporter
from opttree.model.files import save

EXPORTER = Exporter("json", (".json",), lambda model, path, options: save(model, path))
