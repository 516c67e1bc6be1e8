"""Configurations of verl's examples, which a launch names by ``--config-name`` and which users copy.

Kept are the keys that decide memory, time or whether a launch starts; a file that lies beside the launch is
read in their place.

Source: verl v0.4.1, v0.5.0, v0.6.1 and v0.7.1, ``examples/sglang_multiturn/config/<name>.yaml``, the same in
all of them; v0.6.1 ``recipe/dapo/config/dapo_megatron_trainer.yaml``.
"""

from typing import Any

from msgspec import Struct

from tuner.inputs.tree import Tree, merged
from tuner.trainers.verl.defaults import CONFIGS
from tuner.trainers.verl.recipes import DAPO

_FSDP, _MEGATRON = CONFIGS


class ExampleConfig(Struct, frozen=True, kw_only=True, eq=False):
    """A configuration that lays a few keys on one of the trainer's."""

    base: str  # a name of CONFIGS
    tree: Tree


def _in_turns(tokens: int = 1024, **turns: Any) -> Tree:
    """What the examples of several turns share."""
    return {
        "data": {
            "max_prompt_length": tokens,
            "max_response_length": tokens,
            "train_batch_size": 256,
            "return_raw_chat": True,
        },
        "actor_rollout_ref": {
            "hybrid_engine": True,
            "rollout": {"name": "sglang", "multi_turn": {"enable": True, **turns}},
        },
    }


_FIVE = _in_turns(max_assistant_turns=5)
_IMAGES = merged(_in_turns(2048, max_assistant_turns=5), {"data": {"return_multi_modal_inputs": False}})
_SEARCH = merged(_in_turns(max_assistant_turns=2, format="qwen"), {"data": {"shuffle": False}})
_EXAMPLES = {
    "gsm8k_multiturn_grpo": ExampleConfig(base=_FSDP, tree=_FIVE),
    "gsm8k_multiturn_grpo_server": ExampleConfig(base=_FSDP, tree=_FIVE),
    "gsm8k_multiturn_grpo_w_interaction": ExampleConfig(base=_FSDP, tree=_in_turns(max_user_turns=5)),
    "gsm8k_multiturn_megatron_grpo": ExampleConfig(base=_MEGATRON, tree=_FIVE),
    "geo3k_multiturn_grpo": ExampleConfig(base=_FSDP, tree=_IMAGES),
    "geo3k_multiturn_megatron_grpo": ExampleConfig(base=_MEGATRON, tree=_IMAGES),
    "retool_multiturn_grpo": ExampleConfig(base=_FSDP, tree=_FIVE),
    "search_multiturn_grpo": ExampleConfig(base=_FSDP, tree=_SEARCH),
    "dapo_megatron_trainer": ExampleConfig(base=_MEGATRON, tree=DAPO.tree),
}


def example_config(name: str) -> ExampleConfig | None:
    """The example of a name, None where verl has none of it."""
    return _EXAMPLES.get(name.removesuffix(".yaml"))
