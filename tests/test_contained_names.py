"""Models told by a longer name: what is taken, what is left alone, and that the answer says so."""

import json
from pathlib import Path

import pytest

from tests.cli.runner import run
from tuner.errors import InputError
from tuner.models import find_model, model_names, named_within

pytestmark = pytest.mark.sampled(6)

JOB = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.actor.use_dynamic_bsz=True",
    "actor_rollout_ref.rollout.name=vllm",
)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("models/qwen2.5_coder_7b_instruct", "Qwen2.5-Coder-7B-Instruct"),
        ("$HOME/models/Qwen3-4B-Instruct", "Qwen3-4B-Instruct-2507"),
        ("a/retool_sft/qwen-3-32b-instruct/global_step_372_merge", "Qwen3-32B"),
        ("/hub/models--CohenQu--Qwen3-1.7B-Continue/snapshots/0a1b2c3d", "Qwen3-1.7B"),
        ("$PWD/checkpoint/multiturn-sft-qwen-2.5-7b-instruct/global_step_372", "Qwen2.5-7B-Instruct"),
        ("deepsearch-qwen_qwen3-8b-grpo-n16-b128-t1.0-lr1e-6-new_global_step_70", "Qwen3-8B"),
        ("pixel-qwen2-5vl-3b-sft", "Qwen2.5-VL-3B-Instruct"),
        ("qwen25-7b-sft", "Qwen2.5-7B"),
        ("llama31-8b-sft", "Llama-3.1-8B"),
        ("Qwen2.5-Math-7B-16k-think", "Qwen2.5-Math-7B"),
        ("DeepSeek-V3-config-verl", "DeepSeek-V3"),
        ("Qwen3-30B-MoE-merge", "Qwen3-30B-A3B"),
        ("DeepSeek-R1-Distill-Qwen-1.5B-ours", "DeepSeek-R1-Distill-Qwen-1.5B"),
        ("LLaMA-Factory/saves/qwen3-8b/sft", "Qwen3-8B"),
        ("Qwen2.5-7B-Instruct/actor/huggingface", "Qwen2.5-7B-Instruct"),
    ],
)
def test_a_name_inside_a_path_is_taken(path: str, name: str) -> None:
    shape = find_model(path)
    assert shape.name == name
    assert shape.contained_in
    assert shape.contained_in in path


@pytest.mark.parametrize(
    "path",
    [
        "deepseek-ai/DeepSeek-V3.5",  # another version
        "zai-org/GLM-4.5V",
        "meta-llama/Llama-3.1-Tulu-3-8B-SFT",  # another vocabulary
        "/data/deepseek-r1-distill-qwen2.5-1.5b",  # tied embeddings or not
        "agentica/deepseek-r1-distill-llama-3b",
        "Qwen2.5-1.5B-distilled",
        "Qwen/Qwen2.5-Omni-7B",
        "Qwen2.5-7B-VL",
        "Qwen3-Embedding-8B",
        "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B",  # a draft head
        "AngelSlim/Qwen3-8B_eagle3",
        "Qwen3-4B-Base-draft",
        "Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4",
        "Qwen/Qwen3-30B-A3B-FP8",
        "Qwen3-30B-A3B-4layers",
        "deepseek-v3-5layer",
        "Qwen3-8B-MoE",  # dense against experts
        "qwen3-8b-a1b",
        "qwen3-8b-teacher-qwen3-32b",  # which of them
        "qwen2.5-7b-llama-style",
        "mistral-7b-sft",  # v0.1 and v0.3 have other vocabularies
        "THUDM/glm-4-9b-chat",
        "microsoft/phi-4-multimodal-instruct",
        "Phi-4-mini-flash-reasoning",
        "openai-community/gpt2-xl",
        "codegemma-7b",
        "qwen3-8b/eagle-head",  # the last part that speaks of a model decides
        "Qwen3-8B/llava-7b",
        "global_step_372",
        "7b",
    ],
)
def test_another_model_is_not_taken_for_one_that_it_resembles(path: str) -> None:
    assert named_within(path) is None
    with pytest.raises(InputError, match="no bundled profile is named"):
        find_model(path)


def test_every_bundled_name_is_told_in_the_name_of_a_run() -> None:
    """With what trainers append, and in other spellings."""
    for name in model_names():
        for run_name in (f"{name}-global_step_100", f"out/{name.lower().replace('-', '_')}_rl/actor"):
            told = named_within(run_name)
            assert told is not None, run_name
            assert find_model(told).parameters == find_model(name).parameters, run_name


def test_the_answer_says_by_which_name_it_goes() -> None:
    path = "actor_rollout_ref.model.path=sft/my-qwen2.5-math-7b-16k"
    text = run("advise", path, *JOB, "--gpu", "8xh100-sxm")
    assert "Qwen2.5-Math-7B is taken, whose name stands in my-qwen2.5-math-7b-16k" in " ".join(
        text.out.split()
    )
    report = json.loads(run("advise", path, *JOB, "--gpu", "8xh100-sxm", "-f", "json").out)
    assert report["premises"]["model_named_in"] == "my-qwen2.5-math-7b-16k"
    named = json.loads(
        run("advise", path, *JOB, "--gpu", "8xh100-sxm", "-f", "json", "--model", "Qwen3-8B").out
    )
    assert named["premises"]["model_named_in"] is None


def test_what_was_trained_from_a_model_may_take_longer_sequences() -> None:
    lengths = ("data.max_prompt_length=2048", "data.max_response_length=14336")
    for path, finds in (("Qwen2.5-Math-7B", True), ("Qwen2.5-Math-7B-16k", False)):
        out = run("advise", f"actor_rollout_ref.model.path={path}", *JOB, *lengths, "--gpu", "8xh100-sxm").out
        assert ("model-length-over-positions" in out) is finds, path


def test_other_settings_are_offered_and_not_taken() -> None:
    answer = run(
        "advise",
        "actor_rollout_ref.model.path=/models/mine",
        "trainer.experiment_name=grpo-qwen3-8b",
        *JOB,
        "--gpu",
        "8xh100-sxm",
    )
    assert answer.code == 2
    assert "trainer.experiment_name speaks of one: --model Qwen3-8B" in answer.err


@pytest.mark.parametrize("key", ["rollout.judge_vllm.model_name", "actor.rm_name"])
def test_the_model_of_a_judge_is_not_offered(key: str) -> None:
    named = f"+actor_rollout_ref.{key}=Qwen/Qwen3-32B"
    answer = run("advise", "actor_rollout_ref.model.path=/models/mine", named, *JOB, "--gpu", "8xh100-sxm")
    assert answer.code == 2
    assert "32B" not in answer.err


@pytest.mark.parametrize(
    ("name", "offer"),
    [
        ("ppo-qwen3-8b", "trainer.experiment_name speaks of one: --critic-model Qwen3-8B"),
        ("house", "give --critic-model NAME"),
    ],
)
def test_a_critic_is_offered_with_its_own_option(name: str, offer: str) -> None:
    answer = run(
        "advise",
        *JOB,
        "algorithm.adv_estimator=gae",
        "critic.model.path=/models/mine",
        f"trainer.experiment_name={name}",
        *("--model", "Qwen3-8B", "--gpu", "8xh100-sxm"),
    )
    assert answer.code == 2
    assert "critic.model.path" in answer.err
    assert offer in answer.err
    assert " --model " not in answer.err


def test_an_open_model_names_its_variable(tmp_path: Path) -> None:
    script = tmp_path / "run_qwen3-4b.sh"
    script.write_text(
        "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.model.path=$BASE\n"
    )
    answer = run("advise", str(script), "--gpu", "8xh100-sxm")
    assert answer.code == 2
    assert f"{script}:1:" in answer.err
    assert "give BASE=PATH behind the script" in answer.err
    assert "run_qwen3-4b.sh speaks of one: --model Qwen3-4B" in answer.err


@pytest.mark.parametrize("within", ["", "huggingface", "actor/huggingface"])
def test_a_checkpoint_beside_the_script_is_read(within: str, tmp_path: Path) -> None:
    script = tmp_path / "scripts" / "run.sh"
    folder = tmp_path / "ckpt" / "global_step_5" / within
    folder.mkdir(parents=True)
    script.parent.mkdir()
    config = {"model_type": "qwen2", "hidden_size": 1024, "num_hidden_layers": 3, "num_attention_heads": 8}
    config |= {
        "intermediate_size": 2048,
        "vocab_size": 9000,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
    }
    (folder / "config.json").write_text(json.dumps(config))
    script.write_text(
        f"python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=ckpt/global_step_5 {' '.join(JOB)}\n"
    )
    report = json.loads(run("advise", str(script), "--gpu", "8xh100-sxm", "-f", "json").out)
    assert str(folder / "config.json") in report["premises"]["model_reason"]
