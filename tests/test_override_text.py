"""An override is told apart and written by one function each."""

import re

import pytest

from tests.cli.runner import ROOT
from tuner.inputs.override_syntax import override
from tuner.override_text import override_key, value_text

_TAKEN_APART = re.compile(r"""lstrip\((?:["'][+~]+["']|_SIGNS)\)\.partition|partition\("="\)\[0\]\.lstrip""")


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("a.b=1", "a.b", "1"),
        ("+a.b=c=d", "a.b", "c=d"),
        ("++a.b=", "a.b", ""),
        ("~a.b", "a.b", ""),
        ("a.b='x=1'", "a.b", "'x=1'"),
    ],
)
def test_the_key_ends_at_the_first_sign_of_equality(text: str, key: str, value: str) -> None:
    assert (override_key(text), value_text(text)) == (key, value)


@pytest.mark.parametrize("sign", ["", "+", "++"])
@pytest.mark.parametrize("value", [None, True, 8, 0.5, "a b", "x=1", [1, None], ["a,b"]])
def test_what_is_written_is_told_apart_again(sign: str, value: object) -> None:
    text = override("a.b", value, sign)
    assert override_key(text) == "a.b"
    assert text == f"{sign}a.b={value_text(text)}"


def test_nobody_else_tells_a_key_apart() -> None:
    found = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "tuner").rglob("*.py"))
        if _TAKEN_APART.search(path.read_text(encoding="utf-8"))
    ]
    assert found == ["tuner/override_text.py"]
