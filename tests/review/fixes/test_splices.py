"""Splicing changes what an override says and nothing else; each of these refusals has its reason."""

import os
import random
import stat
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.review.fixes.splices import expect_spliced, splice_script, splice_yaml
from tests.review.fixes.texts import script_text, yaml_text
from tuner.errors import InputError
from tuner.review.fixes.edits import CannotEditError, applied, changes, joined, patch
from tuner.review.fixes.script import LaunchScript, expect_script, script_edits
from tuner.review.fixes.yaml_edits import expect_yaml, yaml_edits
from tuner.review.input_findings import Edit
from tuner.writing import write_new, write_over

CONFIG = """\
# head
a:
    b:   # note
        c: 'q'  # d
        on: True
        # e: 1
    # of a
# of top
l: {p: 1, 'q': [1,2]}
empty:   # nothing
z: &x 8
y: *x
m:
  <<: {k: 1}
i: ${a.b.c}
t: !!int 8
s: |
  text
"""
SCRIPT = """\
N=8
ARGS=(
  trainer.nnodes=1
  "trainer.seed=2"
)
python3 -m verl.trainer.main_ppo \\
    actor.x=8 \\
    'actor.l=[1,2]' actor.m="$V" actor.n=$N \\
    actor.use="true" \\
    "${ARGS[@]}" $@ 2>&1 | tee log
"""


def edited(text: str, *overrides: str) -> str:
    data, made = text.encode(), changes(overrides)
    edits = yaml_edits(data, made)
    after = applied(data, edits)
    expect_yaml(data, after, made)
    expect_spliced(data, after, edits)
    return after.decode()


def launched(text: str, *overrides: str) -> str:
    script, made = LaunchScript(path=Path("run.sh"), data=text.encode()), changes(overrides)
    after = applied(script.data, script_edits(script, made))
    expect_script(script, script.with_data(after), made)
    return after.decode()


@pytest.mark.parametrize(
    ("overrides", "old", "new"),
    [
        (["a.b.c=r"], "c: 'q'  # d", "c: 'r'  # d"),
        (["a.b.on=False"], "on: True", "on: False"),
        (["l.p=2"], "{p: 1, 'q'", "{p: 2, 'q'"),
        (["l.q=[3]"], "'q': [1,2]", "'q': [3]"),
        (["l.r.s='a,b'"], "[1,2]}", "[1,2], r: {s: 'a,b'}}"),
        (["empty.k=1"], "empty:   # nothing\n", "empty:   # nothing\n    k: 1\n"),
        (["empty=1"], "empty:   # nothing\n", "empty: 1   # nothing\n"),
        (
            ["a.b.e.f=[1,2]", "a.b.e.g=True", "a.n=1e-6"],
            "        # e: 1\n    # of a\n",
            "        # e: 1\n        e:\n            f: [1, 2]\n            g: True\n"
            "    # of a\n    n: 1.0e-06\n",
        ),
        (["new.k=null"], "  text\n", "  text\nnew:\n    k: null\n"),
        (["~a.b.c", "a.b.cc=q"], "c: 'q'", "cc: 'q'"),
        (["~l.p"], "{p: 1, 'q'", "{'q'"),
        (["~a.b.c"], "        c: 'q'  # d\n", ""),
    ],
)
def test_a_configuration_keeps_all_but_the_value(overrides: list[str], old: str, new: str) -> None:
    assert CONFIG.count(old) == 1
    assert edited(CONFIG, *overrides) == CONFIG.replace(old, new)
    windows = "\ufeff" + CONFIG.replace("\n", "\r\n")
    assert edited(windows, *overrides) == windows.replace(
        old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
    )


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("z=9", "anchor &x"),
        ("y=9", "alias *x"),
        ("y.k=9", "alias *x"),
        ("m.k=2", "another mapping by <<"),
        ("i=r", "follows another key"),
        ("t=9", "tag"),
        ("s=r", "several lines"),
        ("a=1", "several lines"),
        ("a.b.c.d=1", "no section"),
        ("model/engine=megatron", "chooses a group"),
        ("+a@b=c", "chooses a group"),
    ],
)
def test_what_a_configuration_shares_or_computes_is_refused(override: str, reason: str) -> None:
    with pytest.raises(CannotEditError, match=reason.replace("*", r"\*")):
        edited(CONFIG, override)


@pytest.mark.parametrize(
    ("overrides", "old", "new"),
    [
        (["actor.x=9"], "actor.x=8", "actor.x=9"),
        (["actor.l=[3]"], "'actor.l=[1,2]'", "'actor.l=[3]'"),
        (["actor.use=False"], '"true"', '"false"'),
        (["trainer.seed=3"], '"trainer.seed=2"', '"trainer.seed=3"'),
        (["~trainer.nnodes"], "  trainer.nnodes=1\n", ""),
        (["~actor.x"], "    actor.x=8 \\\n", ""),
        (["+new.k=[1]", "new.q=3"], '"true"', "\"true\" \\\n    '+new.k=[1]' \\\n    new.q=3"),
    ],
)
def test_a_script_keeps_all_but_the_override(overrides: list[str], old: str, new: str) -> None:
    assert launched(SCRIPT, *overrides) == SCRIPT.replace(old, new)
    with pytest.raises(CannotEditError, match="CR LF"):
        launched(SCRIPT.replace("\n", "\r\n"), *overrides)


def test_what_a_variable_decides_is_refused() -> None:
    for override in ("actor.m=1", "actor.n=1"):
        with pytest.raises(CannotEditError, match="comes out of"):
            launched(SCRIPT, override)
    twice = SCRIPT.replace("actor.x=8", "$X").replace("N=8", "N=8\nX=actor.x=8\nB=(actor.x=8)\nC=(actor.x=8)")
    with pytest.raises(CannotEditError, match="2 times"):
        launched(twice, "actor.x=9")


def test_another_launch_of_the_same_array_is_not_touched() -> None:
    both = SCRIPT + 'python3 -m verl.trainer.main_ppo a.b=1 "${ARGS[@]}"\n'
    with pytest.raises(CannotEditError, match="another launch"):
        launched(both, "trainer.seed=3")


@pytest.mark.parametrize("seed", range(60))
def test_random_splices_say_what_was_intended(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(2):
        splice_yaml(yaml_text(dice), dice)
        splice_script(*script_text(dice), dice)


@pytest.mark.sampled(30)
@pytest.mark.parametrize("seed", range(100, 3_100, 100))
def test_many_random_splices_say_what_was_intended(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(120):
        splice_yaml(yaml_text(dice), dice)
        splice_script(*script_text(dice), dice)


def test_json_stays_json() -> None:
    text = '{"a": {"b": 1, "c": true}, "d": "x"}\n'
    after = edited(text, "a.b=2", "a.c=False", "e.f=True", "d=null")
    assert after == '{"a": {"b": 2, "c": false}, "d": null, "e": {"f": true}}\n'
    assert yaml.safe_load(after)["e"] == {"f": True}


@pytest.mark.parametrize(
    "overrides", [("a.x=2", "a.b.y=3"), ("a.b.y=3", "a.x=2"), ("z=1", "a.x=2", "a.b.y=3")]
)
def test_keys_of_sections_that_end_together_each_go_into_their_own(overrides: tuple[str, ...]) -> None:
    after = yaml.safe_load(edited("a:\n  b:\n    c: 1\n", *overrides))
    assert after["a"] == {"b": {"c": 1, "y": 3}, "x": 2}


def test_edits_that_touch_become_one_and_those_that_overlap_are_refused() -> None:
    first, second = Edit(start=2, end=4, text="x"), Edit(start=4, end=4, text="y")
    assert joined([second, first]) == (Edit(start=2, end=4, text="xy"),)
    with pytest.raises(CannotEditError):
        joined([first, Edit(start=3, end=5, text="")])


def test_a_file_is_written_wholly_with_its_mode_and_only_if_nobody_changed_it(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"old")
    file.chmod(0o640)
    link = tmp_path / "link.yaml"
    link.symlink_to(file)
    write_over(link, before=b"old", after=b"new")
    assert link.is_symlink()
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"new", 0o640)
    with pytest.raises(InputError, match="changed meanwhile"):
        write_over(file, before=b"old", after=b"newer")
    os.link(file, tmp_path / "second")
    with pytest.raises(InputError, match="second name"):
        write_over(file, before=b"new", after=b"newer")
    with pytest.raises(InputError, match="there already"):
        write_new(file, b"newer")
    assert file.read_bytes() == b"new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.yaml", "link.yaml", "second"]


@pytest.mark.parametrize("name", ["a.yaml", "a b.yaml", '\u6f22 "x".yaml'])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_git_applies_a_diff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, end: bytes) -> None:
    monkeypatch.chdir(tmp_path)
    before = end.join([b"a: 1", b"b: \xff", *(b"# %d" % number for number in range(9)), b"z: 2"])
    file = tmp_path / name
    file.write_bytes(before)
    after = before.replace(b"a: 1", b"a: 3").replace(b"z: 2", b"z: 4")
    subprocess.run(["git", "apply", "-"], input=patch(file, before, after), check=True)
    assert file.read_bytes() == after


def test_a_diff_never_shows_a_secret(tmp_path: Path) -> None:
    before = b"a: 1\nkey: 2\nb: 3\nc: 4\nhf_token: hf_abcdefghijklmnop\n"
    text = patch(tmp_path / "a.yaml", before, before.replace(b"key: 2", b"key: 5"))
    assert text is not None
    assert b"+key: 5\n b: 3\n" in text
    assert b"hf_" not in text
    assert patch(tmp_path / "a.yaml", before, before.replace(b"c: 4", b"c: 5")) is None
