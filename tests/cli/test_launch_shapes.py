"""The ways in which verl's own scripts start a job, each as a small script, with what decides the job."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

_PPO = """\
DATA=(data.train_batch_size=${BATCH:-64} data.max_prompt_length=512 data.max_response_length=1024)
MODEL=(actor_rollout_ref.model.path=${MODEL_PATH:-Qwen/Qwen3-8B})
ACTOR=(
    actor_rollout_ref.actor.use_dynamic_bsz=True
    actor_rollout_ref.actor.ppo_mini_batch_size=32
)
ROLLOUT=(actor_rollout_ref.rollout.name=${INFER_BACKEND:-vllm} actor_rollout_ref.rollout.n=${N:-4})
TRAINER=(trainer.n_gpus_per_node=${NGPUS:-8} trainer.nnodes=${NNODES:-1} algorithm.adv_estimator=grpo)
"""
_ALL = '"${DATA[@]}" "${MODEL[@]}" "${ACTOR[@]}" "${ROLLOUT[@]}" "${TRAINER[@]}"'
_PROBE = """\
DEVICE=${DEVICE:-$(python3 -c 'import torch_npu' 2>/dev/null && echo npu || echo gpu)}
"""

#: By name: the script, the words behind it, and fields of the workload.
SHAPES: dict[str, tuple[str, tuple[str, ...], dict[str, object]]] = {
    "a probe of the device, and a case over it": (
        f"""{_PPO}{_PROBE}
case "${{DEVICE}}" in
    npu) fraction=0.7; NGPUS_HERE=16 ;;
    gpu) fraction=0.45; NGPUS_HERE=8 ;;
    *) echo "unknown device" >&2; exit 1 ;;
esac
python3 -m verl.trainer.main_ppo {_ALL} trainer.n_gpus_per_node=$NGPUS_HERE \\
    actor_rollout_ref.rollout.gpu_memory_utilization=$fraction "$@"
""",
        (),
        {"rollout.memory_fraction": 0.45, "cluster.gpus_per_node": 8},
    ),
    "an array that becomes another launcher": (
        f"""set -xeuo pipefail
{_PPO}{_PROBE}
LAUNCH=(python3)
RAY=(ray_kwargs.ray_init.runtime_env.py_executable=null)
engine=${{INFER_BACKEND:-vllm}}
if [ "${{VERL_USE_UV:-1}}" != 0 ] && [ "${{DEVICE:-gpu}}" = gpu ] && {{ [ "${{engine}}" = vllm ]; }}; then
    LAUNCH=(uv run --frozen --all-packages --extra "${{engine}}" python3)
    RAY=(ray_kwargs.ray_init.runtime_env.py_executable="uv -v run --frozen")
fi
"${{LAUNCH[@]}}" -m verl.trainer.main_ppo {_ALL} "${{RAY[@]}}" "$@"
""",
        ("BATCH=128",),
        {"batch.prompts": 128, "rollout.engine": "vllm"},
    ),
    "extras that an array gets where a variable asks": (
        f"""{_PPO}
EXTRA=()
if [ -n "${{OFFLOAD:-}}" ]; then
    EXTRA+=(actor_rollout_ref.actor.fsdp_config.param_offload=True)
fi
if [ "${{INFER_BACKEND:-vllm}}" = sglang ]; then
    EXTRA+=(actor_rollout_ref.rollout.tensor_model_parallel_size=4)
fi
python3 -m verl.trainer.main_ppo {_ALL} "${{EXTRA[@]}}" "$@"
""",
        ("INFER_BACKEND=sglang", "OFFLOAD=1"),
        {
            "rollout.engine": "sglang",
            "rollout.tensor_parallel": 4,
            "actor.engine.param_offload": True,
        },
    ),
    "an engine by its group, with sums as defaults": (
        f"""{_PPO}
TP=${{TP:-2}} PP=${{PP:-2}}
tokens=${{MAX_TOKENS:-$(((512 + 1024) * 2))}}
python3 -m verl.trainer.main_ppo model_engine=megatron {_ALL} \\
    actor_rollout_ref.actor.megatron.tensor_model_parallel_size=$TP \\
    actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=${{PP}} \\
    actor_rollout_ref.actor.ppo_max_token_len_per_gpu=$tokens "$@"
""",
        (),
        {
            "actor.engine.backend": "megatron",
            "actor.engine.parallel.tensor": 2,
            "actor.engine.parallel.pipeline": 2,
            "actor.update.batching.token_budget": 3072,
        },
    ),
    "an engine in an array that is used last": (
        f"""{_PPO}
EXTRA=(model_engine=veomni actor_rollout_ref.actor.veomni.param_offload=True)
python3 -m verl.trainer.main_ppo {_ALL} "${{EXTRA[@]}}" "$@"
""",
        (),
        {"actor.engine.whole_root": True, "actor.engine.param_offload": True},
    ),
    "an engine by its actor's group": (
        f"""{_PPO}
python3 -m verl.trainer.main_ppo actor@actor_rollout_ref.actor=mlite_actor {_ALL} \\
    actor_rollout_ref.actor.engine.tp=2 hydra.searchpath=[pkg://verl_mlite.config] "$@"
""",
        (),
        {"actor.engine.backend": "not_modelled", "actor.engine.library": "Megatron-Lite"},
    ),
    "a configuration by its name": (
        f"""{_PPO}
python3 -m verl.trainer.main_ppo --config-path=config --config-name='ppo_megatron_trainer.yaml' {_ALL} \\
    actor_rollout_ref.actor.megatron.expert_model_parallel_size=1 $@
""",
        ("trainer.nnodes=2",),
        {"actor.engine.backend": "megatron", "cluster.nodes": 2},
    ),
    "overrides one a line with comments between arrays": (
        """set -x
# GRPO on one node
python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo \\
    data.train_batch_size=64 \\
    actor_rollout_ref.model.path=$HOME/models/Qwen/Qwen3-8B \\
    actor_rollout_ref.actor.ppo_mini_batch_size=32 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 \\
    actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4 \\
    actor_rollout_ref.rollout.n=5 \\
    trainer.n_gpus_per_node=8 $@ 2>&1 | tee grpo.log
""",
        (),
        {
            "batch.responses_per_prompt": 5,
            "actor.update.batching.micro_batch_sequences": 2,
            "actor.log_prob.batching.micro_batch_sequences": 4,
        },
    ),
    "a trainer that generates on GPUs of its own": (
        f"""{_PPO}
python -X faulthandler -m verl.experimental.fully_async_policy.fully_async_main {_ALL} \\
    actor_rollout_ref.hybrid_engine=False data.gen_batch_size=1 \\
    rollout.nnodes=1 rollout.n_gpus_per_node=${{ROLLOUT_GPUS:-4}} "$@"
""",
        ("NGPUS=4", "BATCH=0"),
        {"rollout.colocated": False, "rollout.gpus": 4, "cluster.gpus_per_node": 4},
    ),
    "fine-tuning by torchrun with arguments of the script": (
        """if [ "$#" -lt 2 ]; then
    echo "Usage: run.sh <nproc_per_node> <save_path> [other_configs...]"
    exit 1
fi
nproc_per_node=$1
save_path=$2
shift 2
torchrun --standalone --nnodes=1 --nproc_per_node=$nproc_per_node -m verl.trainer.sft_trainer \\
    data.train_batch_size=64 data.max_length=2048 model.path=Qwen/Qwen3-8B \\
    trainer.default_local_dir=$save_path $@
""",
        ("4", "/tmp/saved", "data.max_length=4096"),
        {"cluster.gpus_per_node": 4, "batch.max_response_tokens": 4096, "rollout": None},
    ),
    "fine-tuning by an entry point in a variable and an engine by a case": (
        """ENTRYPOINT=${ENTRYPOINT:-"-m verl.trainer.sft_trainer"}
BACKEND=${BACKEND:-fsdp}
FSDP=(engine=fsdp optim=fsdp engine.strategy=fsdp2 engine.ulysses_sequence_parallel_size=${SP:-2})
MEGATRON=(engine=megatron optim=megatron engine.tensor_model_parallel_size=2)
case "$BACKEND" in
    fsdp) ENGINE=("${FSDP[@]}") ;;
    megatron) ENGINE=("${MEGATRON[@]}") ;;
    *) exit 1 ;;
esac
torchrun --nnodes=1 --nproc_per_node=${NUM_TRAINERS:-8} ${ENTRYPOINT} \\
    model.path=Qwen/Qwen3-8B data.train_batch_size=64 "${ENGINE[@]}" "$@"
""",
        ("BACKEND=megatron",),
        {"actor.engine.backend": "megatron", "actor.engine.parallel.tensor": 2},
    ),
    "fine-tuning by an engine that is not modelled": (
        """nproc_per_node=${1:-8}
torchrun --standalone --nnodes=1 --nproc_per_node=$nproc_per_node \\
     -m verl.trainer.sft_trainer model=hf_model model.path=Qwen/Qwen3-8B data.train_batch_size=64 \\
    engine=automodel engine.distributed_strategy=fsdp2 engine.backend_config.attn=te \\
    optim=automodel optim.master_weights=true
""",
        (),
        {"actor.engine.library": "NeMo Automodel", "cluster.gpus_per_node": 8},
    ),
    "uv, a module and a value from another variable": (
        f"""{_PPO}
export CUDA_DEVICE_MAX_CONNECTIONS=1
rollout_tp=${{ROLLOUT_TP:-4}}
infer_tp=${{INFER_TP:-${{rollout_tp}}}}
uv run --extra vllm -m verl.trainer.main_ppo {_ALL} \\
    actor_rollout_ref.rollout.tensor_model_parallel_size=$infer_tp "$@"
""",
        ("ROLLOUT_TP=8",),
        {"rollout.tensor_parallel": 8},
    ),
    "a script that starts another one beside it": (
        """ROOT="$( cd "$( dirname "${BASH_SOURCE[0]}" )" && pwd )"
export BATCH=256
bash "$ROOT/inner.sh" actor_rollout_ref.rollout.n=16
""",
        (),
        {"batch.prompts": 256, "batch.responses_per_prompt": 16},
    ),
}
_INNER = f'{_PPO}python3 -m verl.trainer.main_ppo {_ALL} "$@"\n'


def field(workload: dict[str, Any], path: str) -> object:
    value: Any = workload
    for name in path.split("."):
        value = value[name]
    return value


@pytest.mark.parametrize("name", SHAPES)
def test_what_decides_the_job_is_read(name: str, tmp_path: Path) -> None:
    script, words, expected = SHAPES[name]
    (tmp_path / "inner.sh").write_text(_INNER)
    file = tmp_path / "run.sh"
    file.write_text(script)
    answer = run("advise", str(file), *words, "--gpu", "h100", "--verl-version", "0.9.1", "-f", "json")
    assert answer.code == 0, answer.err
    report = json.loads(answer.out)
    assert not [finding for finding in report["findings"] if finding["refuses"]]
    assert {path: field(report["workload"], path) for path in expected} == expected


_WRITING = """\
entry=verl/trainer/main_ppo.py
python3 scripts/change_yaml.py --file ./config/ppo_trainer.yaml.hist --output ./config/ppo_trainer.yaml \\
    --key-value algorithm.adv_estimator=grpo data.train_batch_size=96 \\
    actor_rollout_ref.model.path=Qwen/Qwen3-8B
python3 ${entry} ${args}
"""


def test_a_program_that_writes_the_configuration_is_not_taken_for_the_launch(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(_WRITING)
    result = run("advise", str(script), "--gpu", "h100-sxm", "--output-format", "json")
    assert result.code == 0, result.err
    answer = json.loads(result.out)
    assert answer["workload"]["batch"]["prompts"] == 96
    remarks = [remark["text"] for remark in answer["premises"]["script_remarks"]]
    assert any("scripts/change_yaml.py" in remark for remark in remarks)


def test_options_of_a_program_without_a_trainer_behind_it_are_still_refused(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(_WRITING.replace("python3 ${entry} ${args}\n", ""))
    result = run("advise", str(script), "--gpu", "h100-sxm")
    assert result.code == 2
    assert "'--file' is not an override" in result.err
