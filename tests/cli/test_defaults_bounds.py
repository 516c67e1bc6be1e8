"""``defaults`` lists that name each other again and again cost one visit of each file, and have bounds."""

from itertools import pairwise
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf

from tests.cli.runner import run
from tests.cli.test_bounded_work import calls
from tuner.inputs.tree import dotted, leaves

BELOW = "actor_rollout_ref: {model: {path: Qwen/Qwen2.5-0.5B}, rollout: {name: vllm}}\n"


def chain(folder: Path, count: int, entries: str) -> str:
    """Files each of which has a list of what the next one brings; the configuration on top of them."""
    names = [f"c{number}" for number in range(count)]
    for name, following in pairwise(names):
        (folder / f"{name}.yaml").write_text(f"defaults: [{entries.format(following)}, _self_]\n{name}: 1\n")
    (folder / f"{names[-1]}.yaml").write_text(f"{names[-1]}: 1\n")
    top = folder / "config.yaml"
    top.write_text(f"defaults: [ppo_trainer, c0, _self_]\n{BELOW}")
    return str(top)


def refused(config: str) -> str:
    result = run("config", config)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1), result.err
    return result.err


def test_a_file_that_is_named_twice_is_visited_once(tmp_path: Path) -> None:
    top = chain(tmp_path, 16, "{0}, {0}")
    assert calls("config", top) < 600_000  # twice as many for each further file, if all ways were gone
    assert "c15=1" in run("config", top).out


def test_as_many_places_as_there_are_ways_are_refused(tmp_path: Path) -> None:
    top = chain(tmp_path, 16, "{0}@a, {0}@b")
    assert "the defaults lists have more than 1,000 entries" in refused(top)
    assert calls("config", top, code=2) < 3_000_000


def test_a_chain_of_hundreds_of_files_is_one_message(tmp_path: Path) -> None:
    error = refused(chain(tmp_path, 300, "{0}"))
    assert "c63.yaml:1:12: defaults: more than 64 files name one another in a row" in error
    assert run("config", chain(tmp_path, 60, "{0}")).code == 0


def test_files_are_read_up_to_a_limit_of_all_together(tmp_path: Path) -> None:
    top = tmp_path / "config.yaml"
    names = [f"part{number}" for number in range(12)]
    for name in names:
        (tmp_path / f"{name}.yaml").write_text("# " + "x" * 50_000 + "\n")
    top.write_text(f"defaults: [ppo_trainer, {', '.join(names)}, _self_]\n{BELOW}")
    assert "the files that the defaults lists name hold more than 512 KiB" in refused(str(top))


FILES = {
    "a": "x: 1\n",
    "b": "defaults: [a, _self_]\nx: 2\n",
    "c": "defaults: [a, _self_]\ny: 3\n",
    "g/one": "x: 1\n",
    "g/two": "x: 2\ny: 1\n",
    "h/one": "defaults: [/g: one, _self_]\n",
    "h/two": "defaults: [/g@g: two, _self_]\n",
    "h/again": "defaults: [/g@_global_.g: one, _self_]\n",
}
LISTS = [
    "a, a",
    "b, a",
    "b, c",
    "c, b",
    "b, b, a",
    "a@p, a@q",
    "a@p, a@p",
    "g/one, g/two, g/one",
    "g: [one, two]",
    "g: [two, two]",
    "{g: [one]}, {g: [two]}",
    "g: one, g/two",
    "g: one, g: one",
    "g: one, g: two",
    "g@p: one, g@q: one",
    "g@p: one, g@p: one",
    "g: null, g: null",
    "g: null, g: one",
    "optional g: none, optional g: none",
    "g: one, override g: two",
    "h/one@_global_, h/two@_global_",
    "h/one@p, h/two@q",
    "h/one@p, h/one@p",
    "h/one@p, h/one@q",
    "h/two@p, h/again@p",
    "a, _self_",
]


def by_hydra(folder: Path) -> dict[str, object] | None:
    """What Hydra composes; None where it refuses to."""
    try:
        with initialize_config_dir(str(folder), version_base=None):
            tree = OmegaConf.to_container(compose("config"), resolve=False)
    except HydraException:
        return None
    return {dotted(path): value for path, value in leaves(tree) if value != {}}


@pytest.mark.parametrize("entries", LISTS)
def test_what_stands_twice_is_read_or_refused_as_by_hydra(entries: str, tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.yaml").write_text(text)
    top = tmp_path / "config.yaml"
    top.write_text(f"defaults: [{entries}, _self_]\nz: 1\n")
    expected = by_hydra(tmp_path)
    if expected is None:
        assert ".yaml:1:" in refused(str(top))
        return
    result = run("config", str(top), "--output-format", "overrides")
    assert result.code == 0, result.err
    words = set(result.out.replace(" \\\n", "\n").split())
    assert {f"+{key}={value}" for key, value in expected.items()} <= words
