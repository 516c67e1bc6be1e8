"""Random changes of files, each held to what another reader says of the file before and after.

    $ python -m tests.review.fixes.splices --count 10000 FILE.yaml ...

splices the files, synthetic configurations and synthetic scripts, and prints how often and what was refused.
"""

import argparse
import copy
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from tests.review.fixes.texts import WORDS, script_text, value, yaml_text
from tuner.inputs.override_syntax import override_value
from tuner.inputs.tree import dotted, leaves
from tuner.review.fixes.edits import CannotEditError, KeyEdit, applied
from tuner.review.fixes.script import LaunchScript, expect_script, script_edits
from tuner.review.fixes.yaml_edits import expect_yaml, yaml_edits
from tuner.review.input_findings import Edit

_COMMENT = re.compile(rb"(?:^|\s)#[^\r\n]*")


def splice_yaml(data: bytes, dice: random.Random) -> str:
    """Change one key of a YAML file; ``""``, or why it was refused.

    Raises:
        AssertionError: the file says something else than was intended, or more than the key changed.
    """
    tree = yaml.safe_load(data)
    change = _change(tree, dice)
    try:
        edits = yaml_edits(data, [change])
    except CannotEditError as refused:
        return re.sub(r"[*&]\w+|[\w.']+ (?=is|has|takes)|: .*", "", str(refused))
    after = applied(data, edits)
    expect_yaml(data, after, [change])
    assert _pruned(yaml.safe_load(after) or {}) == _pruned(_with(tree, change))
    expect_spliced(data, after, edits)
    if not change.deletes:
        assert _COMMENT.findall(data) == _COMMENT.findall(after)
        again = yaml_edits(after, [change])
        assert applied(after, again) == after, "a second time changes something"
    return ""


def splice_script(data: bytes, keys: dict[str, str | None], dice: random.Random) -> str:
    """Change, add or remove one override of a script; ``""``, or why it was refused.

    Raises:
        AssertionError: a launch gets something else than was intended.
    """
    key = dice.choice([*keys, f"{dice.choice(WORDS)}.{dice.choice(WORDS)}"])
    deletes = dice.random() < 0.2
    new = None if deletes else dice.choice((8, 0.7, True, "vllm", [1, "b"], "it is", "a/b"))
    override = f"~{key}" if deletes else f"{key}={override_value(new)}"
    change = KeyEdit(path=tuple(key.split(".")), value=new, deletes=deletes, override=override)
    script = LaunchScript(path=Path("/tmp/run.sh"), data=data)
    try:
        edits = script_edits(script, [change])
    except CannotEditError as refused:
        assert keys.get(key, "$") is None or "no override of the launch" in str(refused), refused
        return re.sub(r"out of .*", "out of ...", str(refused))
    after = applied(data, edits)
    try:
        expect_script(script, script.with_data(after), [change])
    except CannotEditError:
        assert deletes
        assert list(keys) == [key], "without overrides it is no launch"
        return "the only override"
    expect_spliced(data, after, edits)
    assert data.count(b"\n") == data.count(b"\r\n") or b"\r" not in after
    return ""


def expect_spliced(before: bytes, after: bytes, edits: tuple[Edit, ...]) -> None:
    """Every byte outside the edits stands where it stood, shifted by what the edits before it add."""
    at, shift = 0, 0
    for edit in edits:
        assert edit.start >= at
        assert before[at : edit.start] == after[at + shift : edit.start + shift]
        shift += len(edit.text.encode()) - (edit.end - edit.start)
        at = edit.end
    assert before[at:] == after[at + shift :]


def _change(tree: Any, dice: random.Random) -> KeyEdit:
    paths = [path for path, _value in leaves(tree) if path and all(isinstance(part, str) for part in path)]
    path = dice.choice(paths) if paths else ()
    chance = dice.random()
    if chance < 0.3 or not path:  # a new key, at some depth
        path = (*path[: dice.randrange(len(path) + 1)], f"new_{dice.choice(WORDS)}", dice.choice(WORDS))
    deletes = chance > 0.85
    new = None if deletes else value(dice)
    override = f"~{dotted(path)}" if deletes else f"{dotted(path)}={override_value(new)}"
    return KeyEdit(path=path, value=new, deletes=deletes, override=override)


def _with(tree: Any, change: KeyEdit) -> Any:
    tree = copy.deepcopy(tree)
    node = tree
    for part in change.path[:-1]:
        if not isinstance(node.get(part), dict):
            node[part] = {}
        node = node[part]
    if change.deletes:
        del node[change.path[-1]]
    else:
        node[change.path[-1]] = change.value
    return tree


def _pruned(tree: Any) -> Any:
    """A tree without empty sections: with its last key a section goes."""
    if not isinstance(tree, dict):
        return tree
    below = {key: _pruned(child) for key, child in tree.items()}
    return {key: child for key, child in below.items() if child != {}}


def main() -> None:
    """Splice files and synthetic ones, and say how often."""
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    dice = random.Random(options.seed)
    texts = [file.read_bytes() for file in options.files]
    texts = [data for data in texts if isinstance(yaml.safe_load(data), dict)]
    done: Counter[str] = Counter()
    for number in range(options.count):
        kind = number % (3 if texts else 2)
        if kind == 0:
            refused = splice_script(*script_text(dice), dice)
        else:
            refused = splice_yaml(yaml_text(dice) if kind == 1 else dice.choice(texts), dice)
        done[f"{('script', 'synthetic', 'file')[kind]}: {refused or 'spliced'}"] += 1
    for text, count in done.most_common():
        print(f"{count:6} {text}")


if __name__ == "__main__":
    main()
