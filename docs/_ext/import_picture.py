"""``.. import-picture::`` and ``.. rooms::``: a package of the program, read off its sources at each build.

The picture has a box for each room and its lines of code, on the floors of the import contracts, or of a
package below on those that its imports make. The table has the first sentence of each room's docstring.
"""

from collections.abc import Sequence
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.addnodes import translatable
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata, OptionSpec
from sphinx.writers.html5 import HTML5Translator

from floor_plan import plan, svg
from house import House, read_house, without_implied
from tables import table


class Picture(nodes.General, nodes.Element, translatable):  # type: ignore[misc]
    """A drawing of a package's imports, whose title and description are translated."""

    def preserve_original_messages(self) -> None:
        """Nothing is lost: messages are attributes of their own."""

    def apply_translated_message(self, original_message: str, translated_message: str) -> None:
        """Put a translation in the place of the title or the description."""
        for attribute in ("title", "description"):
            if self["original"][attribute] == original_message:
                self[attribute] = translated_message

    def extract_original_messages(self) -> Sequence[str]:
        """The title and the description as they were written."""
        return list(self["original"].values())


class _OfPackage(SphinxDirective):
    """Shared by the directives: the package that the argument names."""

    required_arguments = 1

    def house(self) -> House:
        house = read_house(self.arguments[0])
        for room in house.rooms.values():
            for file in room.files:
                self.env.note_dependency(str(file))
        return house


class ImportPicture(_OfPackage):
    """The rooms of a package on their floors, with the imports that no longer way implies."""

    has_content = True
    option_spec: ClassVar[OptionSpec] = {"title": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """The drawing; the content of the directive describes it to those who do not see it."""
        words = {"title": self.options["title"], "description": " ".join(self.content)}
        picture = Picture(house=self.house(), original=words, **words)
        self.set_source_info(picture)
        return [picture]


def draw(house: House, *, title: str, description: str) -> str:
    """The drawing as SVG."""
    lines = without_implied(house.rooms, house.imports)
    notes = {room.name: f"{room.lines:,}" for room in house.rooms.values()}
    return svg(plan(house.floors, lines), notes, title=title, description=description)


class Rooms(_OfPackage):
    """What each room of a package holds, from the top floor down."""

    option_spec: ClassVar[OptionSpec] = {"packages": directives.flag}

    def run(self) -> list[nodes.Node]:
        """One row per room; with ``:packages:`` only those that are packages."""
        house = self.house()
        rooms = [house.rooms[name] for floor in house.floors for name in floor]
        if "packages" in self.options:
            rooms = [room for room in rooms if len(room.files) > 1]
        rows = [[f"``{room.name}``", room.sentence] for room in rooms]
        return table(self, ["Room", "What it holds"], rows, prose=["What it holds"], widths=[25, 75])


def _visit(writer: HTML5Translator, node: Picture) -> None:
    drawing = draw(node["house"], title=node["title"], description=node["description"])
    writer.body.append(f'<div class="floor-plan">{drawing}</div>\n')
    raise nodes.SkipNode


def _skip(writer: object, node: Picture) -> None:
    raise nodes.SkipNode


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directives and the drawing."""
    app.add_node(Picture, html=(_visit, None), text=(_skip, None), gettext=(_skip, None))
    app.add_directive("import-picture", ImportPicture)
    app.add_directive("rooms", Rooms)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
