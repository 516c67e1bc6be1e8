"""The bundled defaults: complete, as released, and built from a wheel by the committed script."""

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.corpus import flattened_defaults
from tuner.inputs.tree import dotted, leaves, lookup, split_key
from tuner.trainers.verl.defaults import CONFIGS, read_defaults
from tuner.trainers.verl.defaults.build import main
from tuner.trainers.verl.releases import BUNDLED
from tuner.versions import at_least


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("version", BUNDLED)
def test_every_release_is_bundled(version: str, config: str) -> None:
    defaults = read_defaults(version, config)
    assert (defaults.version, defaults.config) == (version, config)
    assert defaults.wheel.startswith(f"verl-{version}-")
    assert len(defaults.wheel_sha256) == 64
    assert f"verl/trainer/config/{config}.yaml" in defaults.files
    keys = {dotted(path): value for path, value in leaves(dict(defaults.tree))}
    assert len(keys) > (250 if at_least(version, "0.4.1") else 120)
    assert keys["actor_rollout_ref.actor.strategy"] == ("megatron" if "megatron" in config else "fsdp")
    assert all("_target_" not in fields for fields in defaults.fields.values())
    if at_least(version, "0.5.0"):  # the first with dataclasses
        assert {"gamma", "lam"} <= set(defaults.fields["verl.trainer.config.AlgoConfig"])


@pytest.mark.parametrize(
    ("version", "key", "value"),
    [
        ("0.4.1", "actor_rollout_ref.rollout.max_num_seqs", 1024),
        ("0.5.0", "actor_rollout_ref.model.use_remove_padding", False),
        ("0.7.1", "actor_rollout_ref.actor.fsdp_config.model_dtype", "fp32"),
        ("0.9.1", "actor_rollout_ref.rollout.max_num_seqs", 256),
        ("0.9.1", "actor_rollout_ref.actor.fsdp_config.use_no_sync_for_gradient_accumulation", False),
        ("0.9.1", "model_engine", "dp"),
        ("0.9.1", "critic.forward_max_token_len_per_gpu", "${.ppo_max_token_len_per_gpu}"),
    ],
)
def test_known_values(version: str, key: str, value: Any) -> None:
    tree = dict(read_defaults(version, "ppo_trainer").tree)
    assert lookup(tree, split_key(key)) == value


@pytest.mark.parametrize(("version", "config"), flattened_defaults())
def test_equal_to_independently_flattened_defaults(version: str, config: str) -> None:
    ours = {dotted(path): value for path, value in leaves(dict(read_defaults(version, config).tree))}
    assert ours == flattened_defaults()[version, config]


def test_all_releases_but_the_newest_were_flattened_independently() -> None:
    assert set(flattened_defaults()) == {(version, config) for version in BUNDLED[:-1] for config in CONFIGS}


def test_builder_on_a_small_wheel(tmp_path: Path) -> None:
    folder = "verl/trainer/config/"
    contents = {
        folder + "ppo_trainer.yaml": (
            "defaults:\n  - model_engine: dp\n  - actor@actor_rollout_ref.actor: ${model_engine}_actor\n"
            "  - _self_\n"
            "data:\n  size: 4\n  twice: ${.size}\n"
        ),
        folder + "ppo_megatron_trainer.yaml": (
            "defaults:\n  - ppo_trainer\n  - override model_engine: megatron\n  - _self_\n"
        ),
        folder + "model_engine/dp.yaml": "# @package _global_\nmodel_engine: dp\n",
        folder + "model_engine/megatron.yaml": "# @package _global_\nmodel_engine: megatron\n",
        folder + "actor/dp_actor.yaml": "_target_: verl.workers.config.ActorConfig\nstrategy: fsdp\n",
        folder + "actor/megatron_actor.yaml": "strategy: megatron\n",
        folder + "_generated_ppo_trainer.yaml": "data: {}\n",
        "verl/workers/config/actor.py": (
            "from dataclasses import dataclass\n"
            "raise SystemExit('never imported')\n"
            "@dataclass\nclass Base:\n    lr: float = 1\n    _private: int = 0\n"
            "@dataclass\nclass ActorConfig(Base):\n    strategy: str = 'fsdp'\n"
        ),
    }
    wheel = tmp_path / "verl-9.9.9-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in contents.items():
            archive.writestr(name, text)
    main([str(wheel), "--folder", str(tmp_path)])

    fsdp = json.loads((tmp_path / "9.9.9-ppo_trainer.json").read_text())
    assert fsdp["tree"] == {
        "model_engine": "dp",
        "actor_rollout_ref": {"actor": {"_target_": "verl.workers.config.ActorConfig", "strategy": "fsdp"}},
        "data": {"size": 4, "twice": "${.size}"},
    }
    assert fsdp["fields"] == {"verl.workers.config.ActorConfig": ["lr", "strategy"]}
    assert fsdp["groups"] == {"model_engine": "dp", "actor@actor_rollout_ref.actor": "${model_engine}_actor"}
    assert fsdp["wheel_sha256"] == hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert folder + "ppo_trainer.yaml" in fsdp["files"]
    assert folder + "_generated_ppo_trainer.yaml" not in fsdp["files"]
    megatron = json.loads((tmp_path / "9.9.9-ppo_megatron_trainer.json").read_text())
    assert megatron["tree"]["actor_rollout_ref"]["actor"] == {"strategy": "megatron"}
    assert megatron["groups"]["model_engine"] == "megatron"
