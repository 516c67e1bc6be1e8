"""The file of recorded passes, and what it says of the machine."""

import importlib.metadata
import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import torch
from measure.readings import hardware

WHAT = (
    "Peak GPU memory of verl {verl}'s own FSDP engine (FSDPEngineWithLMHead.infer_batch / train_batch with "
    "verl's ppo_loss, a critic's FSDPEngineWithValueHead with value_loss, inside eval_mode / train_mode), "
    "random weights, packed sequences (use_remove_padding), measured with "
    "torch.cuda.max_memory_allocated after reset on rank 0."
)
NOTES = (
    "model_dtype: stored (master) parameters; bf16 mixed precision, AdamW, gradient clipping on; each "
    "micro-batch has `tokens` tokens on each rank, `micro_batches` of them per optimizer step.",
    "attention: torch aten flash attention (varlen); logprobs: a Triton cross entropy that keeps logits and "
    "one log-sum-exp per token and writes the gradient over the logits, as flash-attn's does.",
    "every engine ran in fresh processes, after one small log_prob and one small update: AdamW's states "
    "exist before every recorded pass.",
    "allocated_before_bytes: before the pass, outside eval_mode / train_mode; allocated_loaded_bytes: "
    "inside, once verl has loaded what it had offloaded. The peak covers both and the pass.",
    "the allocator's cache was emptied before each pass; non_torch_bytes: used on the device and not "
    "reserved by the allocator, right after the pass (CUDA context, NCCL, libraries).",
    "peak_before_step_bytes: of an update, the peak of its forward and backward passes, before gradients "
    "are clipped and AdamW makes its step.",
    "ulysses: sequence-parallel size; the packed micro-batch of a group has ulysses x tokens tokens.",
    "seconds are single runs, wall clock, and include data preparation: use them as hints only.",
    "passes of one engine follow one another in the order of this file; what one leaves behind, such as "
    "weights that stay gathered, is part of allocated_before_bytes of the next.",
    "fsdp_size: GPUs that share one copy of the states, null: all; critic: a value head (transformers' model "
    "for token classification), whose log_prob is a forward pass for values.",
    "the stand-in for flash attention leaves out Gemma's window and cap on attention scores, which live "
    "within the kernel; routed experts run as transformers runs them by default (grouped_mm).",
    "lora_rank > 0: all linear layers, lora_alpha 16; forward_only_engine: the reference engine, whose "
    "parameters its strategy keeps on the host.",
    "images_per_prompt, image_pixels: images of every sequence, and pixels of one as its processor has "
    "resized it; Qwen-VL sees packed patches, each image a square; Gemma 3 images of 896 by 896 pixels, 256 "
    "tokens each.",
    "attention of the vision towers: the same aten flash attention, varlen over packed images, of Gemma's "
    "SigLIP over a batch of them.",
    "frozen_tower: `requires_grad_(False)` on the model's `visual` before FSDP wraps it, as verl 0.7.1's "
    "workers do; 0.9.1's engine has no such setting.",
)


def write(
    path: Path, records: Sequence[dict[str, Any]], *, what: str = WHAT, notes: Sequence[str] = NOTES
) -> None:
    """The file, whole."""
    versions = {
        name: importlib.metadata.version(name) for name in ("verl", "transformers", "tensordict", "peft")
    }
    document = {
        "what": what.format(verl=versions["verl"]),
        "hardware": hardware(),
        "software": {**versions, "torch": torch.__version__},
        "notes": notes,
        "date": date.today().isoformat(),
        "cases": list(records),
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
