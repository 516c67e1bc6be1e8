from pathlib import Path
from types import ModuleType

import pytest
from msgspec.structs import replace

from tests.cli import answers
from tests.cli.golden import expect
from tests.cli.runner import run
from tuner.errors import InputError
from tuner.render import rule_page
from tuner.render.rst import parse_docstring, plain_text, reflow
from tuner.render.rule_page import as_json, as_line, as_text, find, page
from tuner.render.terminal import Terminal
from tuner.rules.retired import Retired

DOCSTRING = """Something is left on the card while nobody uses it

What it checks
--------------

Whether ``actor.offload`` is off.
A sentence that continues on a line of its own.

- one, with :class:`~tuner.workload.Phase` named
- two, which is so long that it has to be continued on the next line when it is shown

Why it matters
--------------

Because of the sum, :math:`16 N / W`, see `the paper <https://example.org/p>`_:

.. math::

   16 \\, N / W

When it does not apply
----------------------

Never.

Sources
-------

verl 0.9.1 ``workers/engine_workers.py``.
"""

TABLE = """
rule: offload-something
base: tuned
bad: [a.b=1, '+c.d=[x]']
cases:
  - {name: other, set: [a.b=2], finds: true, proposes: [a.b=0]}
  - {name: bad, set: [a.b=1, '+c.d=[x]'], finds: true, proposes: [a.b=3]}
"""
BASES = "tuned: {model: qwen2.5-7b, gpu: h100-sxm, gpus_per_node: 8, nodes: 2, version: 0.9.1, overrides: []}"
PAPER = Terminal(width=80)


def module() -> ModuleType:
    made = ModuleType("offload_something")
    made.__doc__ = DOCSTRING
    return made


@pytest.fixture
def example(tmp_path: Path) -> Path:
    (tmp_path / "bases.yaml").write_text(BASES)
    path = tmp_path / "offload-something.yaml"
    path.write_text(TABLE)
    return path


def test_docstring_is_cut_into_title_and_sections() -> None:
    title, sections = parse_docstring(DOCSTRING)
    assert title == "Something is left on the card while nobody uses it"
    assert [heading for heading, _ in sections] == [
        "What it checks",
        "Why it matters",
        "When it does not apply",
        "Sources",
    ]
    assert sections[2][1] == "Never."


def test_the_example_is_read_from_the_table(example: Path) -> None:
    made = page(answers.OFFLOAD, module(), example, "verl")
    assert made.example is not None
    assert made.example.bad == ("a.b=1", "+c.d=[x]")
    assert made.example.instead == ("a.b=3",)
    assert made.example.premise == "qwen2.5-7b on 16 x h100-sxm, verl 0.9.1"


def test_a_page_in_the_terminal(example: Path) -> None:
    expect("rule.txt", as_text(page(answers.OFFLOAD, module(), example, "verl"), PAPER))


def test_a_rule_without_a_table_has_a_page(tmp_path: Path) -> None:
    made = page(answers.OFFLOAD, module(), tmp_path / "none.yaml", "verl")
    assert made.example is None
    assert "Example" not in as_text(made, PAPER)
    assert '"example": null' in as_json(made)


def test_line_of_the_list() -> None:
    made = page(answers.OFFLOAD, module(), Path("none"), "verl")
    assert as_line(made, PAPER).startswith("MEM901  warning  offload-something: Something is left")


@pytest.mark.parametrize("wanted", ["MEM901", "mem901", "offload-something", "Offload-Something"])
def test_rules_are_found_by_code_and_name(wanted: str) -> None:
    pages = tuple(page(rule, module(), Path("none"), "verl") for rule in (answers.OFFLOAD, answers.FUSED))
    assert find(pages, wanted).rule is answers.OFFLOAD


def test_an_unknown_rule_names_the_nearest() -> None:
    pages = (page(answers.OFFLOAD, module(), Path("none"), "verl"),)
    with pytest.raises(InputError, match="did you mean offload-something"):
        find(pages, "offload-somethin")
    with pytest.raises(InputError, match="--all"):
        find(pages, "zzz")


@pytest.mark.parametrize(
    ("marked", "shown"),
    [
        ("``a_b`` is **very** large", "a_b is very large"),
        (
            "see :ref:`the page <memory>` and :func:`~tuner.memory.estimate`",
            "see the page and tuner.memory.estimate",
        ),
        ("`verl <https://x.org/a_b>`__ says", "verl (https://x.org/a_b) says"),
        ("2 * 3 * 4 and a*b", "2 * 3 * 4 and a*b"),
    ],
)
def test_inline_marks_are_taken_away(marked: str, shown: str) -> None:
    assert plain_text(marked) == shown


def test_literal_blocks_stay_as_they_are() -> None:
    assert reflow("Like this::\n\n    a:   b\n\nand on.", PAPER) == "Like this:\n\n    a:   b\n\nand on."


def test_pages_differ_by_rule_only() -> None:
    made = page(answers.OFFLOAD, module(), Path("none"), "verl")
    assert replace(made, rule=answers.FUSED).facts != made.facts


@pytest.mark.parametrize("word", ["MEM777", "mem777", "Old-Rule"])
def test_a_rule_that_is_gone_names_what_took_its_place(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Retired(code="MEM777", name="old-rule", since="0.9", instead="MEM001")
    monkeypatch.setattr(rule_page, "RETIRED", (gone,))
    result = run("rule", word)
    assert result.code == 2
    assert result.err == "error: MEM777 old-rule is gone since tuner 0.9; tuner rule MEM001 took its place\n"
    monkeypatch.setattr(rule_page, "RETIRED", (replace(gone, instead=""),))
    assert run("rule", word).err == "error: MEM777 old-rule is gone since tuner 0.9\n"
