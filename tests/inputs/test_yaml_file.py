"""YAML files: positions, OmegaConf's scalars, and every kind of file that is no configuration."""

from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from tuner.errors import InputError
from tuner.inputs.tree import leaves
from tuner.inputs.yaml_file import parse_yaml, read_yaml
from tuner.inputs.yaml_nodes import loader

BOMB = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (98 + i, 98 + i, b",".join([b"*%c" % (97 + i)] * 9)) for i in range(9)
)

BAD = {
    "binary": (b"\x7fELF\x02\x01\x00\x00", "1:7", "binary"),
    "utf16": ("a: 1\n".encode("utf-16"), "1:4", "binary"),
    "latin1": ("a: 1\nb: café\n".encode("latin-1"), "2:7", "not UTF-8"),
    "control_character": (b"a: 1\nb: \x01\n", "2:4", "control character"),
    "unclosed_list": (b"data:\n  a: [1, 2\nb: 3\n", "3:2", "not valid YAML"),
    "bad_indent": (b"data:\n  a: 1\n b: 3\n", "3:2", "not valid YAML"),
    "tab": (b"data:\n\ta: 1\n", "2:1", "put spaces in place of the tab"),
    "duplicate_key": (
        b"data:\n  a: 1\n  b: 2\n  a: 3\n",
        "4:3",
        "data.a: the key stands twice, first on line 2",
    ),
    "list_at_top": (b"- a\n- b\n", "1:1", "holds a list"),
    "scalar_at_top": (b"hello\n", "1:1", "holds a single value"),
    "two_documents": (b"a: 1\n---\nb: 2\n", "2:1", "single document"),
    "python_object": (
        b'a: !!python/object/apply:os.system ["x"]\n',
        "1:4",
        "!!python/object/apply:os.system is not",
    ),
    "unknown_tag": (b"a: 1\nb: !foo 3\n", "2:4", "the tag !foo is not allowed"),
    "tagged_mapping": (b"a: !foo {b: 1}\n", "1:4", "the tag !foo is not allowed"),
    "bomb": (BOMB, "1:10", "more than 100,000 values"),
    "alias_in_itself": (b"a: &a [*a]\n", "1:4", "inside what it repeats"),
    "undefined_alias": (b"a: *b\n", "1:4", "undefined alias"),
    "deep_flow": (b"[" * 900, "1:65", "nested deeper than 64"),
    "deepest_flow": (b"[" * 200_000, "1:65", "nested deeper than 64"),
    "deep_block": (b"- " * 200_000, "1:129", "nested deeper than 64"),
    "list_as_key": (b"a: 1\n[1]: 2\n", "2:1", "a list or mapping as a key"),
    "empty_key": (b"~: 2\n", "1:1", "an empty key"),
    "merge_of_scalar": (b"a: 1\n<<: 3\n", "2:5", "'<<' takes a mapping"),
    "tagged_nonsense": (b"a: !!int abc\n", "1:4", "'abc' is not a valid int"),
}


@pytest.mark.parametrize(("content", "place", "message"), BAD.values(), ids=BAD)
def test_bad_file_names_its_place(tmp_path: Path, content: bytes, place: str, message: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_yaml(file)
    assert str(caught.value).startswith(f"{file}:{place}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nothing_of_a_python_tag_is_executed(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(f"a: !!python/object/apply:os.mkdir ['{tmp_path}/made']\n")
    with pytest.raises(InputError):
        read_yaml(tmp_path / "c.yaml")
    assert not (tmp_path / "made").exists()


def test_too_large_file_is_refused_without_reading_it_all(tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    file.write_bytes(b"a: 1\n" * 2_000_000)
    with pytest.raises(InputError, match="larger than the limit of 1 MiB"):
        read_yaml(file)


@pytest.mark.parametrize(
    ("name", "message"), [("", "is a directory"), ("none.yaml", "no such file"), ("f/x", "cannot be read")]
)
def test_unreadable_path(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "f").write_text("a: 1\n")
    with pytest.raises(InputError, match=message):
        read_yaml(tmp_path / name)


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "~\n", "\n\n"])
def test_empty_file_is_an_empty_tree(text: str) -> None:
    assert parse_yaml(text, source="c").tree == {}


def test_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_bytes(b"\xef\xbb\xbfdata:\r\n  train_batch_size: 5\r\n")
    document = read_yaml(file)
    assert document.tree == {"data": {"train_batch_size": 5}}
    assert str(document.location("data", "train_batch_size")) == f"{file}:2:3"


def test_every_key_knows_its_place() -> None:
    text = 'a:\n  b: 1  # comment\n  "c": {d: [1, {e: 2}]}\n日本: 3\n'
    document = parse_yaml(text, source="c")
    places = {path: (place.line, place.column) for path, place in document.locations.items()}
    assert places == {
        ("a",): (1, 1),
        ("a", "b"): (2, 3),
        ("a", "c"): (3, 3),
        ("a", "c", "d"): (3, 9),
        ("a", "c", "d", "0"): (3, 13),
        ("a", "c", "d", "1"): (3, 16),
        ("a", "c", "d", "1", "e"): (3, 17),
        ("日本",): (4, 1),
    }


def test_merge_keys_and_aliases() -> None:
    text = """
low: &low {a: 1, b: {x: 1, y: 2}}
high: &high {a: 2}
one:
  b: {z: 3}
  <<: [*high, *low]
two: *low
"""
    document = parse_yaml(text, source="c")
    assert document.tree["one"] == {"a": 2, "b": {"z": 3}}
    assert document.tree["two"] == {"a": 1, "b": {"x": 1, "y": 2}}
    assert document.location("one", "a").line == 3
    assert document.location("one", "b", "z").line == 5
    assert ("one", "b", "x") not in document.locations


SCALARS = """
1e-6|1E5|1.5|.5|-3|+4|0x1F|0o17|017|1_000|1_000.5|1e3|0.1e+2|1e|e5|1.2.3|.inf|-.inf|12:30|1:30.5|2024-01-02
"1e-6"|'8'|"null"|"???"|""|true|True|TRUE|yes|No|on|off|y|n|null|~|Null|None|a b|${a.b}|Qwen/Qwen2.5-7B
"""


@pytest.mark.parametrize("base", ["CSafeLoader", "SafeLoader"])
def test_scalars_are_read_as_omegaconf_reads_them(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml, "CSafeLoader", getattr(yaml, base))
    loader.cache_clear()
    text = "values:\n" + "\n".join(
        f"- {scalar}" for line in SCALARS.strip().splitlines() for scalar in line.split("|")
    )
    ours = parse_yaml(text, source="c").tree["values"]
    loader.cache_clear()
    theirs = OmegaConf.to_container(OmegaConf.create(text), resolve=False)["values"]
    assert [(type(value), value) for value in ours] == [(type(value), value) for value in theirs]


def test_package_header() -> None:
    assert parse_yaml("# @package _global_\na: 1\n", source="c").package == "_global_"
    assert parse_yaml("a: 1\n", source="c").package is None


def test_key_with_a_dot_is_not_two_keys() -> None:
    document = parse_yaml('"a.b": 1\n', source="c")
    assert list(leaves(document.tree)) == [(("a.b",), 1)]
