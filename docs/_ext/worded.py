"""Nodes that carry their texts as an attribute, and are translated before they are drawn or written."""

from collections.abc import Sequence

from docutils import nodes
from sphinx.addnodes import translatable


class Worded(nodes.General, nodes.Element, translatable):  # type: ignore[misc]
    """A node whose attribute ``words`` has its texts by name, and ``original`` the same in English."""

    def preserve_original_messages(self) -> None:
        """Nothing is lost: the texts as they were written are an attribute of their own."""

    def apply_translated_message(self, original_message: str, translated_message: str) -> None:
        """Put a translation in the place of every text that reads so."""
        for name, text in self["original"].items():
            if text == original_message:
                self["words"][name] = translated_message

    def extract_original_messages(self) -> Sequence[str]:
        """The texts as they were written."""
        return list(dict.fromkeys(self["original"].values()))
