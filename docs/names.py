"""A name of opttree in backticks becomes a link to its page in the reference, in Markdown as in docstrings."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

PUBLIC = re.compile(r"(opttree|solvers|experiments)(\.\w+)+")


class Links(SphinxTransform):
    """Replaces literals that are dotted names of ours by references; those that lead nowhere stay literals."""

    default_priority = 5

    def apply(self, **options: Any) -> None:
        """Visit every literal that is not a link already."""
        for literal in list(self.document.findall(nodes.literal)):
            name = literal.astext()
            if PUBLIC.fullmatch(name) and not isinstance(literal.parent, (nodes.reference, addnodes.pending_xref)):
                reference = addnodes.pending_xref(
                    "", refdomain="py", reftype="obj", reftarget=name, refdoc=self.env.docname, refexplicit=False
                )
                literal.replace_self(reference)
                reference += literal
