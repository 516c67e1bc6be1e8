#!/bin/bash
# GRPO with Qwen2.5-7B, as launch scripts are written: variables with defaults, an array, arguments passed on.
set -x

MODEL=${MODEL:-Qwen/Qwen2.5-7B-Instruct}
PROMPT=$((1024 * 2))
DATA=(
    data.train_files=$HOME/data/train.parquet
    data.train_batch_size=${BATCH:-256}
    data.max_prompt_length=$PROMPT
    data.max_response_length=$((PROMPT * 2))
)
if command -v npu-smi > /dev/null; then
    DEVICE=(trainer.device=npu)
else
    DEVICE=()
fi

python3 -m verl.trainer.main_ppo "${DATA[@]}" "${DEVICE[@]}" \
    algorithm.adv_estimator=grpo \
    actor_rollout_ref.model.path=$MODEL \
    actor_rollout_ref.actor.ppo_mini_batch_size=64 \
    actor_rollout_ref.actor.use_dynamic_bsz=True \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.n=$RESPONSES \
    trainer.n_gpus_per_node=8 \
    trainer.nnodes=${NNODES:-1} "$@"
