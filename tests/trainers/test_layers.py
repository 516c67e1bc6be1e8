"""Overrides change the tree exactly as Hydra changes it."""

from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from tuner.inputs.overrides import on_command_line, parse_overrides
from tuner.trainers.layers import Layers
from tuner.trainers.schema import Schema

TREE = {
    "data": {"size": 4, "files": ["a", "b"], "kwargs": {}, "none": None},
    "model": {"opts": {"x": 1, "y": {"z": 2}}, "alias": "${model.opts}", "name": "n"},
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "overrides",
    [
        ["data.size=8", "data.size=9"],
        ["data.files=[c]"],
        ["data.files=null", "model.name=''"],
        ["+data.kwargs.a.b=1", "+data.kwargs.a.c=2"],
        ["+data.kwargs={a: 1}", "data.kwargs={a: 2}"],
        ["+data.none.a=1"],
        ["data.none={a: 1}"],
        ["+new.section.key=1"],
        ["++data.size=1", "++other=2"],
        ["model.opts={x: 5, y: {z: 6}}"],
        ["+model.opts={w: 5}", "+model.opts.y.q=[1,{a: 2}]"],
        ["model.opts={}"],
        ["model.opts=null"],
        ["model.opts=plain"],
        ["model.opts=plain", "~model.opts"],
        ["model.opts=plain", "model.opts={}"],
        ["model.opts=plain", "model.opts={x: 1}"],
        ["~model.opts.y", "+model.opts.y={q: 7}"],
        ["~model.opts", "~data.size=4"],
        ["++model.alias.x=3"],
        ["model.alias=${data}"],
        ["model.name=${data.size}-1e-3", "data.size=1e-3"],
    ],
    ids=" ".join,
)
def test_as_hydra(tmp_path: Path, overrides: list[str]) -> None:
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(TREE))
    with initialize_config_dir(str(tmp_path), version_base=None):
        expected = OmegaConf.to_container(compose("config", overrides=overrides), resolve=False)
    before = yaml.safe_dump(TREE)
    layers = Layers(dict(TREE), Schema(TREE))
    for override in parse_overrides(on_command_line(overrides)).overrides:
        layers.add_override(override)
    assert layers.tree == expected
    assert yaml.safe_dump(TREE) == before
