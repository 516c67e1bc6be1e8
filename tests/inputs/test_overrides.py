"""Overrides: Hydra's grammar, and messages that name the argument and the column."""

from typing import Any

import pytest

from tuner.errors import InputError
from tuner.inputs.overrides import OverrideKind, on_command_line, parse_overrides

GOOD: list[tuple[str, str, OverrideKind, Any]] = [
    ("a.b=1", "a.b", OverrideKind.CHANGE, 1),
    ("a=1e-6", "a", OverrideKind.CHANGE, 1e-6),
    ("a=True", "a", OverrideKind.CHANGE, True),
    ("a=false", "a", OverrideKind.CHANGE, False),
    ("a=null", "a", OverrideKind.CHANGE, None),
    ("a=", "a", OverrideKind.CHANGE, ""),
    ("a='8'", "a", OverrideKind.CHANGE, "8"),
    ('a="x, y"', "a", OverrideKind.CHANGE, "x, y"),
    ("a=[1,2,x]", "a", OverrideKind.CHANGE, [1, 2, "x"]),
    ("a=['/p/q.parquet','/r']", "a", OverrideKind.CHANGE, ["/p/q.parquet", "/r"]),
    ("a={b:1,c:{d:e}}", "a", OverrideKind.CHANGE, {"b": 1, "c": {"d": "e"}}),
    ("a={1:x}", "a", OverrideKind.CHANGE, {"1": "x"}),
    ("a=${b.c}", "a", OverrideKind.CHANGE, "${b.c}"),
    ("a=Qwen/Qwen2.5-7B-Instruct", "a", OverrideKind.CHANGE, "Qwen/Qwen2.5-7B-Instruct"),
    ("a=$HOME/models/x", "a", OverrideKind.CHANGE, "$HOME/models/x"),
    ("+a.b=1", "a.b", OverrideKind.ADD, 1),
    ("++a.b=1", "a.b", OverrideKind.FORCE_ADD, 1),
    ("~a.b", "a.b", OverrideKind.DELETE, None),
    ("~a.b=1", "a.b", OverrideKind.DELETE, 1),
]


@pytest.mark.parametrize(("text", "key", "kind", "value"), GOOD, ids=[row[0] for row in GOOD])
def test_grammar(text: str, key: str, kind: OverrideKind, value: Any) -> None:
    (override,) = parse_overrides(on_command_line([text])).overrides
    assert (override.key, override.kind, override.value, override.text) == (key, kind, value, text)
    assert type(override.value) is type(value)
    assert override.package is None


def test_group_with_package() -> None:
    (override,) = parse_overrides(on_command_line(["actor@actor_rollout_ref.actor=megatron_actor"])).overrides
    assert (override.key, override.package, override.value) == (
        "actor",
        "actor_rollout_ref.actor",
        "megatron_actor",
    )


BAD = [
    ("a", "2:2", "it has no '='"),
    ("", "2:1", "it has no '='"),
    ("=1", "2:1", "has no key"),
    ("a=1,2", "2:1", "give one of the jobs"),
    ("a=choice(1,2)", "2:1", "give one of the jobs"),
    ("a=range(1,9)", "2:1", "give one of the jobs"),
    ("model.path=<path>", "2:12", "quote the value"),
    ("name=run}", "2:9", "it stops at '}'"),
    ("a=[1", "2:5", "close the brackets"),
    ("a=1;2", "2:4", "it stops at ';2'"),
    ("a=" + "[" * 3000 + "]" * 3000, "2:1", "nested too deeply"),
    ("a" + ".a" * 500 + "=1", "2:1", "nested too deeply"),
    ("--verbose", "2:1", "is not an override"),
]


@pytest.mark.parametrize(("text", "place", "message"), BAD, ids=[row[0][:20] for row in BAD])
def test_bad_override_names_argument_and_column(text: str, place: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_overrides(on_command_line(["ok=1", text]))
    assert str(caught.value).startswith(f"command line:{place}: ")
    assert message in str(caught.value)
    assert len(str(caught.value)) < 400


def test_hydra_own_settings_and_options_are_passed_over() -> None:
    texts = [
        "--",
        "hydra.run.dir=/tmp/x",
        "hydra/launcher=basic",
        "--config-path=config",
        "-m",
        "-cn",
        "mine.yaml",
        "a=1",
    ]
    arguments = parse_overrides(on_command_line(texts))
    assert [override.key for override in arguments.overrides] == ["a"]
    assert arguments.config_name == "mine.yaml"


def test_no_overrides_need_no_parser() -> None:
    assert parse_overrides(on_command_line(["--"])).overrides == ()
