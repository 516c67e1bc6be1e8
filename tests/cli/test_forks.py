"""Projects that train with verl under another name, through the command itself.

The settings are those of the projects' own examples, in scripts written for these tests.
Sources: ``source`` of each table in ``tuner/trainers/verl/forks``.
"""

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.runner import run
from tuner.inputs.tree import contains, leaves, merged, split_key
from tuner.trainers.verl.defaults import read_defaults
from tuner.trainers.verl.forks import forks
from tuner.trainers.verl.forks.translate import in_fork, in_verl
from tuner.trainers.verl.forks.verl_agent import FORK as VERL_AGENT_FORK
from tuner.trainers.verl.releases import BUNDLED

pytestmark = pytest.mark.sampled(12)

EASYR1_CONFIG = """\
data:
  max_prompt_length: 2048
  max_response_length: 2048
  rollout_batch_size: 512
  format_prompt: ./math.jinja
algorithm:
  adv_estimator: grpo
  disable_kl: false
  use_kl_loss: true
  kl_coef: 1.0e-2
worker:
  actor:
    global_batch_size: 128
    micro_batch_size_per_device_for_update: 4
    micro_batch_size_per_device_for_experience: 16
    padding_free: true
    dynamic_batching: false
    model:
      model_path: Qwen/Qwen2.5-7B-Instruct
    offload:
      offload_params: true
      offload_optimizer: true
  rollout:
    n: 5
    gpu_memory_utilization: 0.6
    tensor_parallel_size: 2
  ref:
    fsdp:
      enable_cpu_offload: true
    offload:
      offload_params: false
trainer:
  n_gpus_per_node: 8
  val_freq: 5
"""
SAME_IN_VERL = (
    "--config-name=ppo_trainer",
    "data.max_prompt_length=2048",
    "data.max_response_length=2048",
    "data.train_batch_size=512",
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.actor.use_kl_loss=True",
    "actor_rollout_ref.actor.ppo_mini_batch_size=128",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=16",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=16",
    "actor_rollout_ref.model.use_remove_padding=True",
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct",
    "actor_rollout_ref.actor.fsdp_config.param_offload=True",
    "actor_rollout_ref.actor.fsdp_config.optimizer_offload=True",
    "actor_rollout_ref.rollout.n=5",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.rollout.gpu_memory_utilization=0.6",
    "actor_rollout_ref.rollout.tensor_model_parallel_size=2",
    "actor_rollout_ref.rollout.enforce_eager=False",
    "actor_rollout_ref.rollout.enable_chunked_prefill=False",
    "actor_rollout_ref.ref.fsdp_config.param_offload=True",
    "+actor_rollout_ref.ref.fsdp_config.model_dtype=bf16",
)
VERL_AGENT = (
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=gigpo data.train_batch_size=16 "
    "data.max_prompt_length=2048 data.max_response_length=512 "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-1.5B-Instruct actor_rollout_ref.model.use_remove_padding=True "
    "actor_rollout_ref.actor.ppo_mini_batch_size=256 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=32 "
    "actor_rollout_ref.actor.use_kl_loss=True actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=32 "
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=32 actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.actor.use_invalid_action_penalty=True algorithm.gigpo.mode=mean_norm "
    "env.env_name=Webshop env.max_steps=15 env.rollout.n=8 trainer.n_gpus_per_node=2"
)
SEARCH_R1 = (
    "python3 -m verl.trainer.main_ppo data.train_batch_size=512 data.max_prompt_length=4096 "
    "data.max_response_length=500 data.max_start_length=2048 data.max_obs_length=500 "
    "algorithm.adv_estimator=grpo actor_rollout_ref.model.path=Qwen/Qwen2.5-3B "
    "actor_rollout_ref.actor.use_kl_loss=true actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.rollout.n_agent=5 actor_rollout_ref.actor.state_masking=true max_turns=2 "
    "retriever.topk=3 +trainer.val_only=false"
)
RAGEN = (
    "python train.py --config-name _2_sokoban model_path=Qwen/Qwen2.5-3B-Instruct "
    "algorithm.adv_estimator=grpo es_manager.train.env_groups=16 es_manager.train.group_size=8 "
    "agent_proxy.max_turn=5 actor_rollout_ref.rollout.rollout_filter_ratio=0.5"
)
RLLM = (
    "python -u train.py rllm/backend=verl algorithm.adv_estimator=grpo rllm.algorithm.use_rllm=true "
    "data.train_batch_size=32 data.max_prompt_length=4096 data.max_response_length=4096 "
    "+model.name=Qwen/Qwen3-4B actor_rollout_ref.model.path=Qwen/Qwen3-4B "
    "actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.rollout.mode=async actor_rollout_ref.rollout.n=8 rllm.stepwise_advantage.enable=False"
)
LONG_RL = (
    "python3 -m verl.trainer.main worker.actor.model.model_path=Qwen/Qwen2.5-VL-3B-Instruct "
    "worker.rollout.num_chunk_seq=8 worker.rollout.num_video_frames=256 trainer.nnodes=1 "
    "worker.rollout.tensor_parallel_size=1"
)
GVPO = (
    "python3 -m recipe.gvpo.gvpo_main_ppo algorithm.adv_estimator=grpo data.train_batch_size=64 "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.gvpo_beta=0.2 "
    "actor_rollout_ref.actor.ppo_mini_batch_size=32"
)
COMMANDS = {
    "verl-agent": (VERL_AGENT, "0.4.0"),
    "Search-R1": (SEARCH_R1, "0.3.0.post1"),
    "RAGEN": (RAGEN, "0.4.1"),
    "rLLM": (RLLM, "0.8.0"),
    "Long-RL": (LONG_RL, "0.5.0"),
}


@pytest.fixture
def easyr1(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text(EASYR1_CONFIG)
    script = tmp_path / "run.sh"
    script.write_text(
        "set -x\nSYSTEM='Think first: {x}, [y]'\n"
        "python3 -m verl.trainer.main \\\n    config=config.yaml \\\n"
        '    data.system_prompt="""${SYSTEM}""" \\\n    worker.rollout.n=8 \\\n    trainer.val_freq=10\n'
    )
    return script


def answer(*words: str) -> dict[str, Any]:
    """The JSON of ``advise``."""
    result = run("advise", *words, "--gpu", "h100-sxm", "--output-format", "json")
    assert result.code == 0, result.err
    content: dict[str, Any] = json.loads(result.out)
    return content


def unknown(content: dict[str, Any]) -> list[str]:
    """What the check for unknown keys says."""
    return [item["message"] for item in content["findings"] if item["name"] == "unknown-key"]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_pasted_command_is_recognised_and_all_its_keys_are_known(name: str) -> None:
    command, release = COMMANDS[name]
    content = answer(*command.split())
    assert content["premises"]["release"] == release
    assert content["premises"]["release_reason"].startswith(name)
    assert unknown(content) == []
    assert f"read as {name}" in [remark["text"] for remark in content["premises"]["script_remarks"]]


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_table_does_not_know_is_an_unknown_key(name: str) -> None:
    command, _release = COMMANDS[name]
    key = f"{'worker.actor' if name == 'Long-RL' else 'actor_rollout_ref.actor'}.quantum_depth"
    messages = unknown(answer(*command.split(), f"{key}=3"))
    assert [key in message for message in messages] == [True]


def test_easyr1_is_the_same_job_as_in_verls_keys(easyr1: Path) -> None:
    own = answer(str(easyr1.parent / "config.yaml"))
    same = answer(*SAME_IN_VERL, "--verl-version", "0.5.0")
    assert own["memory"] == same["memory"]
    assert own["batches"] == same["batches"]
    assert own["time"] == same["time"]


def test_a_launch_of_easyr1_rests_on_the_file_that_it_names(easyr1: Path) -> None:
    content = answer(str(easyr1))
    assert content["batches"] == answer(str(easyr1.parent / "config.yaml"), "worker.rollout.n=8")["batches"]
    assert [message.split(" (")[0] for message in unknown(content)] == [
        "EasyR1 does not have the key data.system_prompt"
    ]


@pytest.mark.parametrize(
    ("override", "unknowns"),
    [
        ('worker.reward.reward_function_kwargs={"longest": 64, "penalty": 1.0}', 0),
        ("worker.reward.reward_function_kwargs.longest=64", 0),
        ('worker.rollout.val_override_config={"n": 16}', 0),
        ("worker.reward.longest=64", 1),
    ],
)
def test_a_field_of_easyr1_that_is_a_mapping_takes_any_key(
    easyr1: Path, override: str, unknowns: int
) -> None:
    """v0.3.2 ``verl/workers/reward/config.py``: ``reward_function_kwargs: dict``, laid on by OmegaConf."""
    easyr1.write_text(f"python3 -m verl.trainer.main config=config.yaml {shlex.quote(override)}\n")
    assert len(unknown(answer(str(easyr1)))) == unknowns


@pytest.mark.parametrize(("ranks", "tokens"), [(1, 2 * 4096), (4, 2 * 1024)])
def test_a_budget_of_easyr1_is_shared_by_the_ranks_of_a_sequence(
    easyr1: Path, ranks: int, tokens: int
) -> None:
    """v0.3.2 ``verl/workers/actor/dp_actor.py:242`` does not multiply it by the ranks, as verl does."""
    sizes = ("worker.actor.dynamic_batching=true", "worker.actor.micro_batch_size_per_device_for_update=2")
    config = str(easyr1.parent / "config.yaml")
    content = answer(config, *sizes, f"worker.actor.ulysses_size={ranks}")
    assert content["workload"]["actor"]["update"]["batching"]["token_budget"] == tokens
    assert all("max_token_len" not in key for key in content["premises"]["resting_on_defaults"])


@pytest.mark.parametrize(("generates", "left_out"), [("run_llm_loop", True), ("generate_sequences", False)])
def test_turns_by_which_a_copy_of_easyr1_generates_are_left_out_by_name(
    easyr1: Path, generates: str, left_out: bool
) -> None:
    trainer = easyr1.parent / "verl" / "trainer"
    trainer.mkdir(parents=True)
    (easyr1.parent / ".git").mkdir()
    (trainer / "ray_trainer.py").write_text(f"output = manager.{generates}(gen_batch=batch)\n")
    config = easyr1.parent / "config.yaml"
    config.write_text(EASYR1_CONFIG.replace("data:\n", "data:\n  max_turns: 4\n"))
    parts = answer(str(easyr1))["left_out"]
    assert ("data.max_turns" in [part["key"] for part in parts]) is left_out


@pytest.mark.parametrize(("own", "most"), [("max_turns=8", 9), ("max_turns=8 trainer.max_turns=2", 3)])
def test_turns_of_search_r1_are_spread_up_to_its_own_limit(own: str, most: int) -> None:
    tools = "+actor_rollout_ref.rollout.multi_turn.tool_config_path=tools.yaml"
    words = f"{SEARCH_R1.replace('max_turns=2', '')} {own} {tools}".split()
    conversation = answer(*words, "--verl-version", "0.4.1")["workload"]["batch"]["conversation"]
    assert (conversation["most_turns"], conversation["turns"]) == (most, (1 + most) / 2)


def test_a_file_that_a_launch_of_easyr1_names_must_be_there() -> None:
    result = run("advise", "python3", "-m", "verl.trainer.main", "config=nowhere.yaml", "worker.rollout.n=8")
    assert result.code == 2
    assert "there is no file nowhere.yaml" in result.err
    assert "EasyR1" in result.err


def test_advice_for_easyr1_is_in_its_keys_and_brings_what_it_says(easyr1: Path) -> None:
    config = str(easyr1.parent / "config.yaml")
    content = answer(config)
    block = content["combination"]["overrides"]
    sections = {key.split(".")[0] for key in block}
    assert block
    assert sections <= {"worker", "data", "algorithm", "trainer"}
    followed = answer(config, *block)
    assert followed["memory"]["worst_phase"] == content["combination"]["worst_phase"]
    assert followed["memory"] == content["combination"]["memory"]


def test_mini_batches_of_verl_agent_count_turns(tmp_path: Path) -> None:
    content = answer(*VERL_AGENT.split())
    batch = content["workload"]["batch"]
    # rollout_loop.py: a row for each of env.max_steps turns of 16 x 8 episodes
    assert (batch["prompts"], batch["responses_per_prompt"], batch["rounds"]) == (16 * 8 * 15, 1, 15)
    assert content["rollout"]["running_sequences"] == 16 * 8  # of one round
    assert [part["name"] for part in content["left_out"]] == ["episodes of less than 15 turns"]
    assert "mini-exceeds-train" not in [item["name"] for item in content["findings"]]


@pytest.mark.parametrize(
    ("own", "most"),
    [
        ("", 3 * 500 + 2 * 500),  # two answers with what the search found, and one without
        ("max_turns=1 data.max_obs_length=100", 2 * 500 + 100),
        ("max_turns=10", 4096),  # which cuts what is longer
        ("+trainer.max_turns=0", 500),
    ],
)
def test_sequences_of_search_r1_are_a_start_and_its_turns(own: str, most: int) -> None:
    """``search_r1/llm_agent/generation.py`` at a14dc3a: ``run_llm_loop``, ``_update_right_side``."""
    workload = answer(*SEARCH_R1.split(), *own.split())["workload"]
    batch = workload["batch"]
    assert (batch["prompts"], batch["max_prompt_tokens"], batch["max_response_tokens"]) == (2560, 2048, most)
    assert workload["rollout"]["max_model_tokens"] == 4096 + 500  # of one turn, ``vllm_rollout.py``


def test_search_r1_without_search_generates_in_one_piece() -> None:
    batch = answer(*SEARCH_R1.split(), "do_search=False")["workload"]["batch"]
    assert (batch["max_prompt_tokens"], batch["max_response_tokens"]) == (4096, 500)


@pytest.mark.parametrize("more", [(), ("actor_rollout_ref.actor.ppo_micro_batch_size=null",)])
def test_a_later_copy_of_search_r1_has_the_keys_that_the_user_sets(more: tuple[str, ...]) -> None:
    actor = "actor_rollout_ref.actor"
    sizes = (f"{actor}.ppo_micro_batch_size_per_gpu=4", *more)
    content = answer(*SEARCH_R1.split(), *sizes, f"{actor}.use_dynamic_bsz=True")
    assert unknown(content) == []
    assert content["verdict"] != "will_not_start"
    assert "CFG190" not in {item["code"] for item in content["findings"]}
    assert content["workload"]["actor"]["update"]["batching"]["micro_batch_sequences"] == 4


@pytest.mark.parametrize(("value", "on"), [("16", True), ("0", False), ("1", True)])
def test_a_number_for_what_is_on_or_off_counts_as_python_takes_it(value: str, on: bool) -> None:
    """No class is made of the section, and the worker tests ``if self._is_offload_optimizer``."""
    key = "actor_rollout_ref.actor.fsdp_config.optimizer_offload"
    content = answer(*SEARCH_R1.split(), f"{key}={value}")
    said = f"{key}=16 counts as true: it is a number other than 0"
    remarks = [remark["text"] for remark in content["premises"]["script_remarks"]]
    assert content["workload"]["actor"]["engine"]["optimizer_offload"] is on
    assert (said in remarks) is (value == "16")
    of_class = run("advise", *GVPO.split(), f"{key}=16", "--verl-version", "0.9.1", "--gpu", "h100-sxm")
    assert (of_class.code, "expected true or false" in of_class.err) == (2, True)


GRAPH_R1 = (
    "python3 -m verl.trainer.main_ppo data.train_batch_size=128 data.max_prompt_length=4096 "
    "data.max_response_length=4096 data.max_start_length=4096 algorithm.adv_estimator=grpo "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-3B actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 "
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=2 "
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=2"
)


def test_one_key_in_common_makes_no_search_r1_of_a_launch_with_keys_that_it_lacks() -> None:
    content = answer(*GRAPH_R1.split())
    assert not any("read as" in remark["text"] for remark in content["premises"]["script_remarks"])
    assert "CFG103" not in {item["code"] for item in content["findings"]}
    assert content["workload"]["actor"]["update"]["batching"]["micro_batch_sequences"] == 2


def test_search_r1_counts_micro_batches_over_all_gpus_and_is_told_in_its_keys() -> None:
    """It has no keys of one GPU, and hands no budget of tokens to the engine."""
    content = answer(*SEARCH_R1.split(), "data.max_prompt_length=8192", "trainer.n_gpus_per_node=2")
    assert not {"CFG103", "CFG130"} & {item["code"] for item in content["findings"]}
    overrides = [text for item in content["findings"] for text in item["overrides"]]
    assert any(text.startswith("actor_rollout_ref.actor.ppo_micro_batch_size=") for text in overrides)
    assert not [text for text in overrides if "_micro_batch_size_per_gpu" in text]


def test_trajectories_of_ragen_are_those_that_its_filter_keeps() -> None:
    assert answer(*RAGEN.split())["workload"]["batch"]["prompts"] == 8 * 8


def test_another_backend_of_rllm_does_not_train_with_verl() -> None:
    result = run("advise", *RLLM.replace("backend=verl", "backend=tinker").split(), "--gpu", "h100-sxm")
    assert result.code == 2
    assert "rLLM does not train with verl" in result.err
    assert "rllm/backend=verl" in result.err


def test_keys_of_rllm_stand_above_those_of_verl() -> None:
    own = "rllm.data.train_batch_size=16 rllm.rollout.n=4 rllm.data.max_response_length=8192"
    content = answer(*RLLM.split(), *own.split(), "rllm.algorithm.kl_beta=0.001")
    batch, workload = content["workload"]["batch"], content["workload"]
    assert (batch["prompts"], batch["responses_per_prompt"]) == (16, 4)
    assert (batch["max_prompt_tokens"], batch["max_response_tokens"]) == (4096, 8192)
    assert workload["reference"] is not None
    assert workload["rollout"]["colocated"]
    assert content["left_out"] == []


RLLM_BARE = (
    "python train.py rllm/backend=verl rllm.trainer.total_epochs=1 rllm.rejection_sample.enable=True "
    "actor_rollout_ref.model.path=Qwen/Qwen3-4B actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.actor.use_dynamic_bsz=True"
)


def test_defaults_of_rllm_hold_where_nobody_sets_either_key() -> None:
    content = answer(*RLLM_BARE.split())
    batch = content["workload"]["batch"]
    assert (batch["prompts"], batch["responses_per_prompt"]) == (64, 8)
    assert (batch["max_prompt_tokens"], batch["max_response_tokens"]) == (2048, 30720)
    assert [one["name"] for one in content["left_out"]] == ["rejection sampling"]


def test_asynchronous_training_of_rllm_generates_on_gpus_of_its_own() -> None:
    content = answer(*RLLM.split(), "rllm.async_training.enable=True", "rollout.n_gpus_per_node=4")
    rollout = content["workload"]["rollout"]
    assert (rollout["colocated"], rollout["gpus"]) == (False, 4)
    assert [one["name"] for one in content["left_out"]] == ["the asynchronous training"]


def test_a_recipe_is_known_by_its_program_and_its_release() -> None:
    content = answer(*GVPO.split())
    assert content["premises"]["release"] == "0.6.0"
    assert unknown(content) == []


def test_every_table_names_its_source_and_a_bundled_release() -> None:
    assert len(forks()) >= 6
    for fork in forks():
        assert "commit" in fork.source
        assert fork.release in BUNDLED
        assert fork.tells


@pytest.mark.parametrize("fork", [fork for fork in forks() if fork.renames], ids=lambda fork: fork.name)
def test_a_renamed_key_is_found_again(fork: Any) -> None:
    for own in fork.keys:
        path = split_key(own)
        back = in_fork(fork, in_verl(fork, path))
        assert back is not None
        assert in_verl(fork, back) == in_verl(fork, path)


@pytest.mark.parametrize("fork", forks(), ids=lambda fork: fork.name)
def test_keys_that_tell_a_project_are_in_no_release_of_verl(fork: Any) -> None:
    for version in BUNDLED:
        for config in ("ppo_trainer", "ppo_megatron_trainer"):
            tree = dict(read_defaults(version, config).tree)
            assert leaves(tree)
            assert not [tell for tell in fork.tells if contains(tree, split_key(tell))]


ASYNC = (
    "--config-path=config --config-name=fully_async_ppo_trainer.yaml algorithm.adv_estimator=grpo "
    "data.train_batch_size=0 data.gen_batch_size=1 actor_rollout_ref.hybrid_engine=False "
    "actor_rollout_ref.model.path=Qwen/Qwen3-4B actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 "
    "actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.mode=async trainer.n_gpus_per_node=4 "
    "rollout.nnodes=1 rollout.n_gpus_per_node=4 rollout.total_rollout_steps=1000"
)


@pytest.mark.parametrize(
    "program",
    [
        "python3 -m verl.experimental.fully_async_policy.fully_async_main ",
        "python3 verl/experimental/fully_async_policy/fully_async_main.py ",
        "",
    ],
)
def test_a_program_of_verls_own_decides_before_a_name_that_a_project_has_too(program: str) -> None:
    words = f"{program}{ASYNC}".split()
    content = answer(*words, "--verl-version", "0.9.1")
    texts = [remark["text"] for remark in content["premises"]["script_remarks"]]
    assert not any("rLLM" in text for text in texts)
    assert content["premises"]["release"] == "0.9.1"
    assert (content["workload"]["rollout"]["colocated"], content["workload"]["rollout"]["gpus"]) == (False, 4)
    of_rllm = answer("python3", "-m", "rllm.cli.train", *ASYNC.split(), "--verl-version", "0.9.1")
    texts = [remark["text"] for remark in of_rllm["premises"]["script_remarks"]]
    assert any("read as rLLM" in text for text in texts)


def test_an_error_of_a_project_is_explained_in_its_keys() -> None:
    message = (
        '  File "/verl/workers/fsdp_workers.py", line 644, in compute_log_probs\n'
        '  File "/verl/workers/engine_workers.py", line 644, in compute_log_prob\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 18.56 GiB. GPU 0 has a total capacity "
        "of 79.11 GiB of which 8.85 GiB is free. Process 7 has 70.25 GiB memory in use. Of the allocated "
        "memory 66.00 GiB is allocated by PyTorch, and 1.20 GiB is reserved by PyTorch but unallocated.\n"
    )
    words = ("explain-oom", "docs/examples/easyr1-grpo.yaml", "--message", "-", "--gpu", "h100-sxm")
    content = json.loads(run(*words, "--output-format", "json", stdin=message).out)
    assert content["deciding_keys"]
    assert all(key.startswith("worker.") for key in content["deciding_keys"])
    shown = run(*words, stdin=message).out
    assert "set by worker.actor.micro_batch_size_per_device_for_experience" in " ".join(shown.split())
    assert "actor_rollout_ref" not in shown


ASSERTS_ONE = """env, algorithm.gigpo, use_invalid_action_penalty, invalid_action_penalty_coef
def run(config):
    assert config.actor_rollout_ref.rollout.n == 1, "we keep n=1, and achieve GRPO by env.rollout.n"
"""


def test_a_copy_of_verl_agent_refuses_responses_beside_its_environments(tmp_path: Path) -> None:
    """``verl/trainer/main_ppo.py:150`` of H00RU/agentflow, whose default is 2 (``ppo_trainer.yaml:131``)."""
    own = {"actor_rollout_ref": {"rollout": {"n": 2}}, "env": {"env_name": "Webshop", "rollout": {"n": 1}}}
    _copy_of_verl_agent(tmp_path, merged(VERL_AGENT_FORK.laid_on, own))
    (tmp_path / "run.sh").write_text(VERL_AGENT)
    content = answer(str(tmp_path / "run.sh"))
    (finding,) = (item for item in content["findings"] if item["code"] == "CFG192")

    assert content["verdict"] == "will_not_start"
    assert finding["overrides"] == ["actor_rollout_ref.rollout.n=1"]
    assert any("verl/trainer/main_ppo.py:3" in note for note in finding["notes"])
    mended = answer(str(tmp_path / "run.sh"), "actor_rollout_ref.rollout.n=1")
    assert mended["verdict"] != "will_not_start"
    assert mended["workload"]["batch"]["responses_per_prompt"] == 1


def test_turns_of_search_r1_go_on_where_the_engine_ends_one_of_them() -> None:
    """The engine sees the last 4,096 tokens before each turn; a start and its turns may be 6,144."""
    told = run("advise", *SEARCH_R1.split(), "max_turns=10", "--gpu", "h100-sxm").out
    assert "half of the maxima assumed (1,024 + 2,048)" in " ".join(told.split())


def test_a_copy_has_what_stands_in_its_file_and_not_what_its_project_has(tmp_path: Path) -> None:
    """Hydra composes the file alone: ``+`` is right for what it lacks, and a key without it is not."""
    sections = {"actor_rollout_ref": {"rollout": {"n": 1}}, "env": {"env_name": "Webshop"}}
    _copy_of_verl_agent(tmp_path, sections)
    launch = re.sub(r" (env\.(?!env_name)|algorithm\.gigpo|\S+invalid_action)", r" +\1", VERL_AGENT)
    (tmp_path / "run.sh").write_text(launch)
    content = answer(str(tmp_path / "run.sh"))
    assert "CFG160" not in [item["code"] for item in content["findings"]]
    assert content["verdict"] != "will_not_start"
    assert content["workload"]["batch"]["rounds"] == 15  # the project is still told by these keys

    (tmp_path / "run.sh").write_text(launch.replace("+env.max_steps", "env.max_steps"))
    (finding,) = (it for it in answer(str(tmp_path / "run.sh"))["findings"] if it["code"] == "CFG001")
    assert "env.max_steps" in finding["message"]


def _copy_of_verl_agent(folder: Path, own: Mapping[str, Any]) -> None:
    """A repository with a copy of verl 0.4.0 whose configuration has further keys."""
    config = folder / "verl" / "trainer" / "config"
    config.mkdir(parents=True)
    (folder / ".git").mkdir()
    tree = merged(dict(read_defaults("0.4.0", "ppo_trainer").tree), own)
    (config / "ppo_trainer.yaml").write_text(yaml.safe_dump(tree))
    (folder / "verl" / "trainer" / "main_ppo.py").write_text(ASSERTS_ONE)


def test_a_section_that_others_have_too_tells_a_project_by_its_own_keys_alone() -> None:
    """verl's trainer of robots has ``env.train``, and no turns of ``env.max_steps`` that multiply a batch."""
    own = ("env.train.num_envs=8", "env.disagg_sim.nnodes=1")
    batches = {}
    for words in (("env.max_steps=4",), own):
        answer = run("config", "/dev/null", "-f", "overrides", "--", "data.train_batch_size=16", *words)
        batches[words] = next(word for word in answer.out.split() if "train_batch_size" in word)
    assert list(batches.values()) == ["data.train_batch_size=64", "data.train_batch_size=16"]
