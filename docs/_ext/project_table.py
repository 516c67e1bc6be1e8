"""``.. projects::``: the projects on a copy of verl that are read, from their tables."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from tables import table
from tuner.trainers.verl.forks import forks
from tuner.trainers.verl.forks.fork import Fork


class Projects(SphinxDirective):
    """A table with one row per project."""

    def run(self) -> list[nodes.Node]:
        """Its name, what tells it, the release that it is read as, and where its facts stand."""
        header = ["Project", "Told by", "Read as verl", "Source"]
        return table(self, header, map(_row, forks()), widths=[12, 40, 13, 35])


def _row(fork: Fork) -> list[str]:
    told = ", ".join(f"``{name}``" for name in (*fork.programs, *fork.tells))
    source = fork.source.replace("*", r"\*")
    return [fork.name, told, fork.release, source]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("projects", Projects)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
