"""Overrides read without Hydra: never anything else than what Hydra reads."""

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.corpus import launches
from tuner.inputs.plain_overrides import PlainOverride, read_plain

ROOT = Path(__file__).parents[2]

PREFIXES = {"CHANGE": "", "ADD": "+", "FORCE_ADD": "++", "DEL": "~"}

# Every character that means something to Hydra's lexer, or to Python's or YAML's idea of a number.
CHARACTERS = "aeEfxXnNiI_019.+-/:%*@?|'\"[](){}<>,=$~\\ \t\n#;&é٣"
KEYS = ["a", "a.b", "actor_rollout_ref.actor.strategy", "_a", "A9.b_0"]
OTHER_KEYS = ["a/b", "a@b", "a-b", "a.0", "$a", "", "a."]
NUMBERS = [
    *("0", "-0", "+7", "00", "1_000", "1__0", "_1", "1_", "0x10", "1e5", "1E-5", "1e", ".5", "5.", "+.5e+1"),
    *("1.5.2", "1_0.5_0", "-.5_", "1-2", "--1", "e5"),
]
WORDS = [
    *("inf", "-INF", "+nan", "infx", "Infinity", "true", "TrUe", "truee", "-true", "null", "Null", "none"),
    *("yes", "~", "a:b", "a::b", ":", "*.visual.*", "a|b?c@d%e", "é", "٣"),
]
PATHS = ["Qwen/Qwen2.5-7B", "./data", "/p/q.parquet", "hdfs://x:9/y", "$HOME/x", "${a.b}", "<path>", "x}"]
QUOTED = ["''", '""', "'a b'", "'a,b'", '"it\'s"', "'\\''", "'a", "'${a}'"]
NESTED = ["{}", "{a:1}", "[]", "[a]", "f(1)", "choice(1,2)", "a b", "a\\,b"]
ATOMS = [*NUMBERS, *WORDS, *PATHS, *QUOTED, *NESTED]
BRACKETS = [("[", "]"), ("[ ", " ]"), ("[\t", "]"), ("[", "] "), (" [", "]"), ("[", ""), ("", "]")]
ANY_KEY = st.sampled_from([*KEYS, *OTHER_KEYS])


@cache
def _parser() -> OverridesParser:
    return OverridesParser.create()


def _hydra(text: str) -> PlainOverride | None:
    """What Hydra reads; None where it refuses, sweeps or reads a group with a package."""
    try:
        parsed = _parser().parse_rule(text, "override")
    except (HydraException, RecursionError):
        return None
    if parsed.is_sweep_override() or parsed.package is not None:
        return None
    return PlainOverride(prefix=PREFIXES[parsed.type.name], key=parsed.key_or_group, value=parsed.value())


def _same(left: Any, right: Any) -> bool:
    """Equal in value and type, NaN equal to itself."""
    return repr(left) == repr(right)


def _expect_hydras(text: str) -> None:
    plain = read_plain(text)
    assert plain is None or _same(plain, _hydra(text)), text


@settings(deadline=None)
@given(
    prefix=st.sampled_from(["", "", "+", "++", "+++", "~"]),
    key=ANY_KEY,
    value=st.text(CHARACTERS, max_size=8),
)
def test_any_value_is_hydras_or_left_to_hydra(prefix: str, key: str, value: str) -> None:
    _expect_hydras(f"{prefix}{key}={value}")


@settings(deadline=None)
@given(
    atoms=st.lists(st.one_of(st.sampled_from(ATOMS), st.text(CHARACTERS, max_size=4)), max_size=4),
    comma=st.sampled_from([",", ", ", " ,", " ,\t", "\n,", ",,"]),
    ends=st.sampled_from(BRACKETS),
)
@example(atoms=["'a", "b'"], comma=",", ends=("[", "]"))
@example(atoms=["'a]", "[b'"], comma=",", ends=("[", "]"))
@example(atoms=[":", "a:"], comma=" ,", ends=("[ ", "]"))
@example(atoms=["a", "b"], comma="\n,", ends=("[", "]"))
@example(atoms=[], comma=",", ends=("[ ", " ]"))
def test_any_list_is_hydras_or_left_to_hydra(atoms: list[str], comma: str, ends: tuple[str, str]) -> None:
    _expect_hydras(f"a.b={ends[0]}{comma.join(atoms)}{ends[1]}")


@settings(deadline=None)
@given(text=st.text(CHARACTERS, max_size=10))
def test_any_text_is_hydras_or_left_to_hydra(text: str) -> None:
    _expect_hydras(text)


@pytest.mark.parametrize("atom", ATOMS)
def test_known_values_are_hydras_or_left_to_hydra(atom: str) -> None:
    _expect_hydras(f"a.b={atom}")
    _expect_hydras(f"+a.b=[{atom}, {atom}]")


@pytest.mark.parametrize("key", OTHER_KEYS)
def test_other_keys_are_hydras_or_left_to_hydra(key: str) -> None:
    _expect_hydras(f"{key}=1")


WORD = st.from_regex(r"[A-Za-z0-9_/.$%*@?|+-]{1,6}(:[A-Za-z0-9_/.$%*@?|+-]{1,6})?", fullmatch=True)


@settings(deadline=None)
@given(value=st.one_of(WORD, st.integers().map(str), st.floats().map(str), st.lists(WORD, max_size=4)))
def test_words_numbers_and_lists_of_them_need_no_hydra(value: str | list[str]) -> None:
    text = f"+a.b_c={value if isinstance(value, str) else '[' + ', '.join(value) + ']'}"
    assert read_plain(text) is not None
    _expect_hydras(text)


def test_every_recorded_override_is_hydras_and_nearly_all_need_no_hydra() -> None:
    texts = {text for launch in launches() for text in launch["overrides"]}
    assert len(texts) > 1000
    for text in texts:
        _expect_hydras(text)
    assert sum(read_plain(text) is None for text in texts) < len(texts) / 50


def test_plain_overrides_do_not_import_hydra() -> None:
    code = (
        "import sys; from tuner.inputs.overrides import on_command_line, parse_overrides; "
        "parse_overrides(on_command_line(['a.b=1', '+c=[x, \"y\"]', 'd=Q/Qwen2.5-7B'])); "
        "assert 'hydra' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
