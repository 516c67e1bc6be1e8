"""Which overrides Hydra refuses on a composed configuration, and which ones the program says that it does."""

from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException

from tuner.inputs.overrides import on_command_line
from tuner.inputs.yaml_file import parse_yaml
from tuner.trainers.verl.defaults import read_defaults
from tuner.trainers.verl.load import parse

VERSION = "0.9.1"
MODEL, ROLLOUT = "actor_rollout_ref.model", "actor_rollout_ref.rollout"
OVERRIDES = [
    f"{MODEL}.override_config.attn_implementation=eager",
    f"+{MODEL}.override_config.attn_implementation=eager",
    f"++{MODEL}.override_config.attn_implementation=eager",
    f"{MODEL}.override_config={{attn_implementation:eager}}",
    f"{MODEL}.override_config={{}}",
    f"{ROLLOUT}.engine_kwargs.vllm.foo=1",
    f"+{ROLLOUT}.engine_kwargs.vllm.foo=1",
    f"{ROLLOUT}.engine_kwargs.vllm={{foo:1}}",
    f"{ROLLOUT}.engine_kwargs.vllm={{enable_prefix_caching:true}}",
    "ray_kwargs.ray_init.foo=1",
    "+ray_kwargs.ray_init.runtime_env.env_vars.A=1",
    "ray_kwargs.ray_init={num_cpus:8}",
    "ray_kwargs.ray_init={num_cpus:8,foo:1}",
    "ray_kwargs={ray_init:{num_cpus:8,foo:{bar:1}}}",
    "++data.custom_cls={path:a,other:b}",
    "data.custom_cls={path:a}",
    "data.custom_cls={path:a,other:b}",
    "data.sampler.class_path={a:1}",
    "data.sampler.class_path.a=1",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release's configuration as one file."""
    folder = tmp_path_factory.mktemp("composed")
    (folder / "all.yaml").write_text(yaml.safe_dump(dict(read_defaults(VERSION, "ppo_trainer").tree)))
    return folder


@pytest.mark.sampled(8)
@pytest.mark.parametrize("override", OVERRIDES)
def test_what_hydra_refuses_is_said_to_be_refused(override: str, folder: Path) -> None:
    with initialize_config_dir(str(folder), version_base=None):
        try:
            compose("all", overrides=[override])
            refuses = False
        except HydraException:
            refuses = True
    unknown = parse(None, on_command_line([override])).on(VERSION).settings.unknown
    assert any(key.refused for key in unknown) is refuses


HANDED_ON = """ray_kwargs: {ray_init: {runtime_env: {env_vars: {A: "1"}}, object_store_memory: 5}}
actor_rollout_ref:
  actor: {megatron: {override_transformer_config: {moe_router_dtype: fp32, recompute_methd: uniform}}}
reward: {custom_reward_function: {reward_kwargs: {z: 1}}}
data: {shufle: true, mm_processor_kwargs: {a: 1}}
"""


def test_sections_that_are_handed_on_take_any_key_but_a_slip() -> None:
    document = parse_yaml(HANDED_ON, source="c.yaml")
    unknown = parse(document, on_command_line(["model_engine=megatron"])).on(VERSION).settings.unknown
    assert [key.key for key in unknown] == [
        "actor_rollout_ref.actor.megatron.override_transformer_config.recompute_methd",
        "data.shufle",
    ]


def test_hydra_takes_such_a_key_of_the_command_line_with_a_plus_alone() -> None:
    key = "actor_rollout_ref.actor.megatron.override_transformer_config.moe_router_dtype"
    words = ["model_engine=megatron", f"{key}=fp32"]
    (unknown,) = parse(None, on_command_line(words)).on(VERSION).settings.unknown
    assert (unknown.key, unknown.nearest, unknown.refused) == (key, f"+{key}", True)
    added = parse(None, on_command_line(["model_engine=megatron", f"+{key}=fp32"]))
    assert added.on(VERSION).settings.unknown == ()
