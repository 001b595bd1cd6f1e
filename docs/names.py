"""Names of opttree in backticks become links to the reference: whole ones in Markdown, short ones in docstrings."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform
from sphinx.util.nodes import make_refnode

PUBLIC = re.compile(r"(opttree|solvers)(\.\w+)+")


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


PLACES = ("opttree.", "solvers.", "opttree.constraints.", "opttree.losses.", "opttree.interpret.", "solvers.external.")


def resolve(app: Any, env: Any, node: addnodes.pending_xref, content: nodes.Node) -> nodes.Node | None:
    """Find a name of ours that a docstring uses without its module, as readers of the code do."""
    target = node.get("reftarget", "")
    for place in PLACES if node.get("refdomain") == "py" else ():
        found = env.get_domain("py").objects.get(place + target)
        if found is not None:
            return make_refnode(app.builder, node["refdoc"], found.docname, found.node_id, content)
    return None
