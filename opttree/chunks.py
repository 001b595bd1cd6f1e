"""Tables larger than memory, read in chunks of rows."""

from opttree.tables.chunks import Chunks as Chunks, predict_chunks as predict_chunks

__all__ = ["Chunks", "predict_chunks"]
