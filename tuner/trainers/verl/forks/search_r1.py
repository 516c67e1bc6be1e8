"""Search-R1: models that search while they reason, on an early copy of verl."""

from collections.abc import Mapping
from typing import Any

from tuner.inputs.settings import Settings
from tuner.language import N_
from tuner.trainers.verl.forks.fork import Fork

_ROLLOUT = "actor_rollout_ref.rollout"


def computed(settings: Settings) -> Mapping[str, Any]:
    """Prompts are repeated before generation; a trained sequence is a start and all turns behind it.

    The engine is built for one turn: for the longest context and what is generated behind it.
    """
    prompts = settings.integer("data.train_batch_size", default=1024, minimum=1)
    repeated = settings.integer(f"{_ROLLOUT}.n_agent", default=1, minimum=1)
    values: dict[str, Any] = {"data.train_batch_size": prompts * repeated}
    if _searches(settings):
        context = settings.integer("data.max_prompt_length", default=512, minimum=1)
        generated = settings.integer("data.max_response_length", default=512, minimum=1)
        values |= {
            "data.max_prompt_length": settings.integer("data.max_start_length", default=256, minimum=1),
            "data.max_response_length": min(context, _all_turns(settings, generated)),
            f"{_ROLLOUT}.prompt_length": settings.integer(f"{_ROLLOUT}.prompt_length", default=context),
            f"{_ROLLOUT}.response_length": settings.integer(f"{_ROLLOUT}.response_length", default=generated),
        }
    return values


def _searches(settings: Settings) -> bool:
    """Whether responses have turns; copies of the project have the switch in the trainer's section."""
    own = "trainer.do_search"
    return settings.flag(own) if own in settings else settings.flag("do_search", default=True)


def _all_turns(settings: Settings, generated: int) -> int:
    """The most tokens behind a start: so many turns with an answer of the search, and one without."""
    own = settings.integer("trainer.max_turns", minimum=0)
    turns = settings.integer("max_turns", default=10, minimum=0) if own is None else own
    answered = settings.integer("data.max_obs_length", default=512, minimum=0)
    return turns * (generated + answered) + generated


FORK = Fork(
    name="Search-R1",
    source=(
        "github.com/PeterGriffinJin/Search-R1 at commit a14dc3a of 2025-10-29: "
        "verl/trainer/config/ppo_trainer.yaml, verl/trainer/ppo/ray_trainer.py, "
        "search_r1/llm_agent/generation.py"
    ),
    release="0.3.0.post1",
    programs=("verl.trainer.main_ppo_format",),
    tells=(
        "retriever",
        "max_turns",
        "do_search",
        "data.max_start_length",
        "data.max_obs_length",
        "actor_rollout_ref.rollout.n_agent",
        "actor_rollout_ref.actor.state_masking",
        "algorithm.no_think_rl",
        "algorithm.state_masking",
    ),
    generator="LLMGenerationManager",
    package="search_r1",
    lacks=(
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu",
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu",
        "critic.ppo_micro_batch_size_per_gpu",
        "critic.forward_micro_batch_size_per_gpu",
        "reward_model.micro_batch_size_per_gpu",
    ),
    statements=(
        "models/registry _REOVEPAD_MODELS llama mistral gemma qwen2",
        "workers/fsdp_workers check_model_support_rmpad use_remove_padding model_type",
        "workers/fsdp_workers _is_ref _is_offload_param param_offload",
        "workers/fsdp_workers log_prob_micro_batch_size rollout n",
        "workers/fsdp_workers ActorRolloutRefWorker save_checkpoint save_pretrained state_dict",
        "workers/fsdp_workers CriticWorker save_checkpoint save_pretrained state_dict",
        "workers/actor/dp_actor policy_loss gradient_accumulation",
    ),
    tree={
        "data": {
            "train_data_num": None,
            "val_data_num": None,
            "max_start_length": 256,
            "max_obs_length": 512,
            "shuffle_train_dataloader": True,
            "val_batch_size": 1312,
        },
        "actor_rollout_ref": {
            "model": {"enable_gradient_checkpointing": False},
            "actor": {
                "ppo_micro_batch_size": 64,
                "state_masking": False,
                "fsdp_config": {"grad_offload": False},
            },
            "ref": {"log_prob_micro_batch_size": 128, "fsdp_config": {"fsdp_size": -1}},
            "rollout": {"log_prob_micro_batch_size": 128, "n_agent": 1, "top_p": 0.95},
        },
        "critic": {
            "ppo_micro_batch_size": 64,
            "model": {"enable_gradient_checkpointing": False, "fsdp_config": {"grad_offload": False}},
        },
        "reward_model": {
            "micro_batch_size": 64,
            "model": {"fsdp_config": {"min_num_params": 0}},
            "structure_format_score": 0,
            "final_format_score": 0,
            "retrieval_score": 0,
        },
        "retriever": {"url": "http://127.0.0.1:8000/retrieve", "topk": 3},
        "algorithm": {
            "no_think_rl": False,
            "state_masking": {
                "start_state_marker": "<information>",
                "end_state_marker": "</information>",
            },
        },
        "max_turns": 10,
        "do_search": True,
    },
    computed=computed,
    turns_keys=("trainer.max_turns", "max_turns"),
    notes=(
        N_(
            "a sequence is counted as a start of data.max_start_length and max_turns turns of "
            "data.max_response_length and data.max_obs_length behind it, with one answer more, in all at "
            "most data.max_prompt_length; that they are generated in several rounds is not counted "
            "in the seconds"
        ),
        N_("the retriever takes memory of its own where it runs on the same GPUs"),
    ),
)
