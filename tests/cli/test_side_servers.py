"""A server that a script starts on the trainer's GPUs is a condition of what is said of memory."""

from pathlib import Path

import pytest

from tests.cli.runner import run

TRAINER = """\
python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo \\
    data.max_prompt_length=1024 data.max_response_length=1024 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-3B-Instruct \\
    actor_rollout_ref.actor.ppo_mini_batch_size=128 \\
    actor_rollout_ref.actor.use_dynamic_bsz=True \\
    actor_rollout_ref.rollout.name=vllm \\
    trainer.n_gpus_per_node=8
"""
GIVEN = ("--gpu", "h100-sxm", "--isolated", "--verl-version", "0.9.1")


def said(folder: Path, script: str, *options: str) -> str:
    file = folder / "run.sh"
    file.write_text(script)
    return " ".join(run("advise", str(file), *options, *GIVEN).out.split())


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (
            "python search/retrieval_server.py --index_path e5.index --topk 3 --faiss_gpu &",
            "retrieval_server.py",
        ),
        ("nohup vllm serve Qwen/Qwen2.5-7B-Instruct --port 8001 > judge.log 2>&1 &", "vllm serve"),
        ("python3 -m sglang.launch_server --model-path Qwen/Qwen2.5-7B-Instruct &", "sglang.launch_server"),
        ("python -m vllm.entrypoints.openai.api_server --model m &", "vllm.entrypoints.openai.api_server"),
        (
            "CUDA_VISIBLE_DEVICES=7 vllm serve Qwen/Qwen2.5-7B-Instruct &",  # the trainer has eight
            "vllm serve",
        ),
    ],
)
@pytest.mark.parametrize("options", [(), ("--full",)])
def test_it_is_named_with_its_line(tmp_path: Path, line: str, name: str, options: tuple[str, ...]) -> None:
    text = said(tmp_path, f"set -x\n{line}\n{TRAINER}", *options)
    assert f"The script starts {name} before (" in text and "run.sh:2" in text
    assert "what it takes of the same GPUs is not in the estimate." in text


@pytest.mark.parametrize(
    "script",
    [
        TRAINER,
        f"python search/retrieval_server.py --topk 3 &\n{TRAINER}",
        f"CUDA_VISIBLE_DEVICES= vllm serve m &\n{TRAINER}",
        f"vllm serve m --device cpu &\n{TRAINER}",
        f"CUDA_VISIBLE_DEVICES=7 vllm serve m &\nexport CUDA_VISIBLE_DEVICES=0,1,2,3\n{TRAINER}",
        f"{TRAINER}\nvllm serve m &\n",
        f"echo vllm serve m\n{TRAINER}",
    ],
)
def test_what_is_not_on_the_trainers_gpus_is_not_spoken_of(tmp_path: Path, script: str) -> None:
    text = said(tmp_path, script)
    assert "at the peak" in text
    assert "is not in the estimate" not in text
