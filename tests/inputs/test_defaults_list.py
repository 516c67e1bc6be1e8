"""The ``defaults`` list of a configuration brings what Hydra composes from it."""

from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from tests.loading import load
from tuner.errors import InputError
from tuner.inputs.tree import dotted, leaves
from tuner.trainers.verl.releases import BUNDLED

#: Stands for verl's own folder, which Hydra needs to compose and this program has as data.
VERL = {
    "ppo_trainer.yaml": "defaults: [actor@actor_rollout_ref.actor: dp_actor, _self_]\n",
    "actor/dp_actor.yaml": "{}\n",
}
FILES = {
    "actor/mine.yaml": "ppo_micro_batch_size_per_gpu: 4\n",
    "actor/full.yaml": "defaults: [dp_actor, _self_]\nppo_micro_batch_size_per_gpu: 2\n",
    "size/large.yaml": "n: 3\n",
    "size/small.yaml": "n: 7\n",
    "size/everywhere.yaml": "# @package _global_\ntrainer: {nnodes: 4}\n",
    "nest/middle.yaml": "defaults: [/size@actor_rollout_ref.rollout: large, deep@_here_, _self_]\nx: 1\n",
    "nest/deep.yaml": "y: 2\n",
}
ROLLOUT = "actor_rollout_ref.rollout"
ACTOR = "actor_rollout_ref.actor"


def read(folder: Path, entries: str, beside: str = "") -> dict[str, Any]:
    """The keys that a configuration with this list sets, and their values."""
    (folder / "more").mkdir(exist_ok=True)
    verl, own = folder / "verl", folder / "own"
    for top, files in ((verl, VERL), (own, FILES)):
        for name, text in files.items():
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_text(text)
    (own / "config.yaml").write_text(
        f"hydra: {{searchpath: ['file://{verl}', 'file://{folder / 'more'}']}}\n"
        f"defaults: [ppo_trainer, {entries}, _self_]\ndata: {{train_batch_size: 64}}\n"
    )
    settings = load(own / "config.yaml", (), version=BUNDLED[-1]).settings
    return {key: settings.get(key) for key in settings.user_keys}


def composed(folder: Path) -> dict[str, Any]:
    """What Hydra makes of the same."""
    with initialize_config_dir(str(folder / "own"), version_base=None):
        tree = OmegaConf.to_container(compose("config"), resolve=False)
    return {dotted(path): value for path, value in leaves(tree) if value != {}}


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "entries",
    [
        f"actor/mine@{ACTOR}",
        f"/actor/mine@{ACTOR}",
        f"override /actor@{ACTOR}: mine",
        f"override actor@{ACTOR}: full",
        f"size@{ROLLOUT}: large",
        f"size@{ROLLOUT}: [small, large]",
        f"size@_global_.{ROLLOUT}: large",
        f"size@{ROLLOUT}: large, override size@{ROLLOUT}: small",
        "size/large",
        "size/large@_global_",
        "size: small",
        "size@_group_: small",
        "size/everywhere",
        "size/everywhere@trainer",
        "nest/middle",
        "nest/middle@_global_",
        f"nest/middle@_global_, override /size@{ROLLOUT}: small",
        f"optional size@{ROLLOUT}: absent",
    ],
)
def test_as_hydra(tmp_path: Path, entries: str) -> None:
    assert read(tmp_path, entries) == composed(tmp_path)


def test_a_choice_lies_below_what_stands_after_the_list_that_it_overrides(tmp_path: Path) -> None:
    entries = f"size@{ROLLOUT}: large, actor/mine@{ACTOR}, override /actor@{ACTOR}: full"
    assert read(tmp_path, entries)[f"{ACTOR}.ppo_micro_batch_size_per_gpu"] == 4
    assert read(tmp_path, entries) == composed(tmp_path)


def test_a_folder_of_the_searchpath_has_files_too(tmp_path: Path) -> None:
    (tmp_path / "more/shape").mkdir(parents=True)
    (tmp_path / "more/shape/long.yaml").write_text("max_response_length: 9\n")
    assert read(tmp_path, "shape@data: long")["data.max_response_length"] == 9
    assert read(tmp_path, "shape@data: long") == composed(tmp_path)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (f"size@{ROLLOUT}: absent", "'size@actor_rollout_ref.rollout: absent' is neither"),
        ("size/absent@data", "'size/absent@data' is neither"),
        (f"override size@{ROLLOUT}: small", "no other entry chooses size"),
    ],
)
def test_what_hydra_refuses_is_one_message(tmp_path: Path, entries: str, message: str) -> None:
    with pytest.raises(InputError, match=r"config\.yaml:2:25: defaults: ") as caught:
        read(tmp_path, entries)
    assert message in str(caught.value)
