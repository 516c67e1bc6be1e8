"""Words inside displayed formulas: messages of the catalogue, and nothing else of a formula is."""

import pytest
from docutils import nodes

from docs._ext.mathml import Formula


def formula(text: str) -> Formula:
    node = Formula(text, text)
    node.preserve_original_messages()
    return node


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            r"b E \;\text{(sent as stored)}, \qquad 2 b \;\text{(cast first)}",
            ["(sent as stored)", "(cast first)"],
        ),
        (r"a \quad\text{or}\quad b \quad\text{or}\quad c", ["or"]),
        (r"b \text{ under FSDP2}", ["under FSDP2"]),
        (r"2\,\text{MiB} \;\text{(FSDP)}", []),
        (r"\max_m b_{t,m}", []),
    ],
)
def test_only_words_are_messages(text: str, words: list[str]) -> None:
    assert list(formula(text).extract_original_messages()) == words


def test_a_translation_replaces_its_words_alone() -> None:
    node = formula(r"or_1 \text{or} \; \text{ or else} \; \text{ or }")
    node.apply_translated_message("or", "或")
    assert node.astext() == r"or_1 \text{或} \; \text{ or else} \; \text{ 或 }"
    assert all(isinstance(child, nodes.Text) for child in node.children)


def test_the_messages_stay_those_that_were_written() -> None:
    node = formula(r"a \text{or} b")
    node.apply_translated_message("or", "或")
    assert list(node.extract_original_messages()) == ["or"]
