"""What a reader unfolds."""

import re
from pathlib import Path

from tests.docs.small_site import build

PAGE = "Start\n=====\n\n.. _asked:\n\n.. question:: How *much*?\n\n   So much.\n"


def test_a_question_shows_its_words_and_hides_its_answer(tmp_path: Path) -> None:
    built = build(tmp_path, {"index.rst": PAGE}, extensions=("folded",))
    page = built.page("index")
    assert re.search(
        r'<details class="question folded" id="asked">\s*<summary>How <em>much</em>\?</summary>', page
    )
    assert re.search(r"So much\.</p>\s*</details>", page)
    assert {"How *much*?", "So much."} <= built.messages("index")


def test_what_is_folded_is_not_empty(tmp_path: Path) -> None:
    built = build(tmp_path, {"index.rst": "Start\n=====\n\n.. folded:: Empty\n"}, extensions=("folded",))
    assert "Content block expected" in built.warnings
