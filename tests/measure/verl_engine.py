"""Records the peak GPU memory of verl's own FSDP engine, pass by pass; run it by hand.

    torchrun --nproc-per-node 2 tests/measure/verl_engine.py --output FILE [--cases NAME ...] [--dry-run]

Needs verl 0.9.1 and what its FSDP engine imports (a transformers release that verl admits, tensordict,
peft, accelerate, hydra-core, codetiming, torchdata, ...), and the repository on ``PYTHONPATH`` for the
dimensions of the models. Ray, datasets and flash-attn are not needed: the first two are replaced by modules
that answer anything where they are missing, flash-attn by PyTorch's own flash attention and a Triton cross
entropy that keeps what flash-attn's keeps. Weights and tokens are random.

Every engine runs in fresh processes, one per GPU, so that nothing is left over from the one before it. The
file is written again after each engine. ``--cases`` takes the names that ``--list`` prints. ``--dry-run``
shrinks models and sequences; without a GPU every number of bytes is then 0, and the cases with ``fsdp1`` or
``reference`` in their names stop, as PyTorch refuses them there.
"""

import argparse
import gc
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import traceback
import types
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

# Looking for a GPU must not start CUDA before the fork.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812

QWEN = "Qwen/Qwen2.5-1.5B"
ENGINE_TIMEOUT = timedelta(seconds=150)
WHAT = (
    "Peak GPU memory of verl {verl}'s own FSDP engine (FSDPEngineWithLMHead.infer_batch / train_batch with "
    "verl's ppo_loss, inside eval_mode / train_mode), random weights, packed sequences (use_remove_padding), "
    "measured with torch.cuda.max_memory_allocated after reset on rank 0."
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
    "ulysses: sequence-parallel size; the packed micro-batch of a group has ulysses x tokens tokens.",
    "seconds are single runs, wall clock, and include data preparation: use them as hints only.",
    "passes of one engine follow one another in the order of this file; what one leaves behind, such as "
    "weights that stay gathered, is part of allocated_before_bytes of the next.",
    "lora_rank > 0: all linear layers, lora_alpha 16; forward_only_engine: the reference engine, whose "
    "parameters its strategy keeps on the host.",
)


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """What an engine is built with."""

    model: str = QWEN
    strategy: str = "fsdp2"
    model_dtype: str = "fp32"
    gradient_checkpointing: bool = True
    use_torch_compile: bool = True
    fused_kernels: str | None = None
    param_offload: bool = False
    optimizer_offload: bool = False
    activation_offload: bool = False
    reshard_after_forward: bool = True
    forward_prefetch: bool = False
    forward_only_engine: bool = False
    lora_rank: int = 0
    deferred_gradient_sync: bool = False
    entropy_checkpointing: bool = False
    entropy_chunking: bool = False
    ulysses: int = 1


@dataclass(frozen=True, kw_only=True)
class PassSettings:
    """What one pass of an engine computes."""

    tokens: int
    kind: str = "update"  # or log_prob
    calculate_entropy: bool = False
    micro_batches: int = 1
    sequence_length: int = 1024
    temperature: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Case:
    """One engine and the passes to record with it."""

    engine: EngineSettings = field(default_factory=EngineSettings)
    passes: Sequence[PassSettings]


def passes(
    *tokens: int, entropy: Sequence[bool] = (False, True), kinds: Sequence[str] = ("log_prob", "update")
) -> list[PassSettings]:
    """Every combination, in the order of a training step."""
    return [
        PassSettings(tokens=count, calculate_entropy=with_entropy, kind=kind)
        for count in tokens
        for with_entropy in entropy
        for kind in kinds
    ]


def accumulation(tokens: int) -> list[PassSettings]:
    """Updates of one, two and four micro-batches."""
    return [PassSettings(tokens=tokens, micro_batches=count) for count in (1, 2, 4)]


def cases() -> dict[str, Case]:
    """Every case by its name."""
    plain = EngineSettings()
    fsdp1 = replace(plain, strategy="fsdp")
    lora = replace(plain, lora_rank=32)
    llama = replace(plain, model="meta-llama/Llama-3.2-1B")
    qwen3 = replace(plain, model="Qwen/Qwen3-1.7B")
    reference = replace(plain, forward_only_engine=True)
    both = passes(4096, 16384)
    middle = passes(8192)
    short = passes(8192, entropy=[False])
    log_probs = passes(4096, 16384, kinds=["log_prob"])
    return {
        "lora": Case(engine=lora, passes=passes(8192, 16384)),
        "lora-bf16": Case(engine=replace(lora, model_dtype="bf16"), passes=passes(8192, 16384)),
        "fsdp1": Case(engine=fsdp1, passes=both),
        "deferred": Case(engine=replace(plain, deferred_gradient_sync=True), passes=accumulation(8192)),
        "synchronised": Case(engine=plain, passes=accumulation(8192)),
        "offload": Case(
            engine=replace(plain, param_offload=True, optimizer_offload=True), passes=passes(4096, 8192)
        ),
        "activation-offload": Case(
            engine=replace(plain, activation_offload=True), passes=passes(8192, 16384)
        ),
        "ulysses": Case(engine=replace(plain, ulysses=2), passes=passes(4096, 8192)),
        "llama": Case(engine=llama, passes=middle),
        "llama-no-checkpointing": Case(engine=replace(llama, gradient_checkpointing=False), passes=middle),
        "qwen3": Case(engine=qwen3, passes=middle),
        "qwen3-no-checkpointing": Case(engine=replace(qwen3, gradient_checkpointing=False), passes=middle),
        "prefetch": Case(engine=replace(plain, forward_prefetch=True), passes=short),
        "reference": Case(engine=reference, passes=log_probs),
        "reference-bf16": Case(engine=replace(reference, model_dtype="bf16"), passes=log_probs),
        "repeated": Case(engine=replace(plain, use_torch_compile=False), passes=middle),
        "bf16": Case(engine=replace(plain, model_dtype="bf16"), passes=middle),
        "fsdp1-no-checkpointing": Case(
            engine=replace(fsdp1, gradient_checkpointing=False), passes=passes(4096)
        ),
        "fsdp1-deferred": Case(engine=replace(fsdp1, deferred_gradient_sync=True), passes=accumulation(8192)),
        "fsdp1-synchronised": Case(engine=fsdp1, passes=accumulation(8192)),
        "fsdp1-offload": Case(
            engine=replace(fsdp1, param_offload=True, optimizer_offload=True), passes=passes(8192)
        ),
        "param-offload": Case(engine=replace(plain, param_offload=True), passes=short),
        "optimizer-offload": Case(engine=replace(plain, optimizer_offload=True), passes=short),
        "activation-offload-no-checkpointing": Case(
            engine=replace(plain, activation_offload=True, gradient_checkpointing=False), passes=short
        ),
        "fsdp1-activation-offload": Case(engine=replace(fsdp1, activation_offload=True), passes=short),
        "fsdp1-lora": Case(engine=replace(lora, strategy="fsdp"), passes=middle),
        "lora-no-checkpointing": Case(engine=replace(lora, gradient_checkpointing=False), passes=short),
        "fsdp1-prefetch": Case(engine=replace(fsdp1, forward_prefetch=True), passes=short),
        "fsdp1-reference": Case(engine=replace(reference, strategy="fsdp"), passes=log_probs),
        "unsharded": Case(engine=replace(plain, reshard_after_forward=False), passes=short),
        "fsdp1-unsharded": Case(engine=replace(fsdp1, reshard_after_forward=False), passes=short),
        "prefetch-long": Case(engine=replace(plain, forward_prefetch=True), passes=passes(16384)),
        "activation-offload-lora": Case(engine=replace(lora, activation_offload=True), passes=passes(16384)),
        "deferred-long": Case(
            engine=replace(plain, deferred_gradient_sync=True),
            passes=[replace(item, sequence_length=4096) for item in accumulation(16384)],
        ),
    }


class Permissive(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds packages that are imported by verl and not used by its engine, and lets them answer anything."""

    names = ("datasets", "ray")

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname.partition(".")[0] in self.names:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = types.ModuleType(spec.name)

        def anything(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return mock.MagicMock(name=f"{spec.name}.{name}")

        vars(module)["__getattr__"] = anything
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def varlen_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: Any,
    max_seqlen_k: Any,
    softmax_scale: float | None = None,
    causal: bool = False,
) -> torch.Tensor:
    """``flash_attn_varlen_func`` by PyTorch's own copy of flash attention 2."""
    if q.is_cuda:
        return torch.ops.aten._flash_attention_forward(
            q,
            k,
            v,
            cu_seqlens_q,
            cu_seqlens_k,
            int(max_seqlen_q),
            int(max_seqlen_k),
            0.0,
            causal,
            False,
            scale=softmax_scale,
        )[0]
    lengths = cu_seqlens_q.diff().tolist()
    parts = zip(*(states.transpose(0, 1).split(lengths, dim=1) for states in (q, k, v)), strict=True)
    attended = [
        F.scaled_dot_product_attention(*part, is_causal=causal, scale=softmax_scale, enable_gqa=True)
        for part in parts
    ]
    return torch.cat(attended, dim=1).transpose(0, 1)


if importlib.util.find_spec("triton"):
    import triton
    import triton.language as tl

    @triton.jit
    def _loss_kernel(logits, labels, losses, log_sums, stride, columns, BLOCK: tl.constexpr):  # noqa: N803
        row = tl.program_id(0).to(tl.int64)
        largest = tl.full((), -float("inf"), tl.float32)
        total = tl.zeros((), tl.float32)
        for start in range(0, columns, BLOCK):
            offsets = start + tl.arange(0, BLOCK)
            values = tl.load(logits + row * stride + offsets, mask=offsets < columns, other=-float("inf"))
            values = values.to(tl.float32)
            new = tl.maximum(largest, tl.max(values, axis=0))
            total = total * tl.exp(largest - new) + tl.sum(tl.exp(values - new), axis=0)
            largest = new
        log_sum = largest + tl.log(total)
        label = tl.load(logits + row * stride + tl.load(labels + row)).to(tl.float32)
        tl.store(log_sums + row, log_sum)
        tl.store(losses + row, log_sum - label)

    @triton.jit
    def _gradient_kernel(
        gradients,
        logits,
        labels,
        log_sums,
        upstream,
        upstream_stride,
        stride,
        columns,
        BLOCK: tl.constexpr,  # noqa: N803
    ):
        row = tl.program_id(0).to(tl.int64)
        offsets = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        inside = offsets < columns
        values = tl.load(logits + row * stride + offsets, mask=inside, other=-float("inf")).to(tl.float32)
        probabilities = tl.exp(values - tl.load(log_sums + row))
        probabilities = tl.where(offsets == tl.load(labels + row), probabilities - 1.0, probabilities)
        scaled = probabilities * tl.load(upstream + row * upstream_stride)
        tl.store(gradients + row * stride + offsets, scaled, mask=inside)


class CrossEntropy(torch.autograd.Function):
    """Cross entropy per token that keeps the logits and, if asked, writes their gradient over them."""

    @staticmethod
    def forward(
        ctx: Any, logits: torch.Tensor, labels: torch.Tensor, inplace_backward: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        rows, columns = logits.shape
        losses = torch.empty(rows, dtype=torch.float32, device=logits.device)
        log_sums = torch.empty_like(losses)
        if logits.is_cuda:
            _loss_kernel[(rows,)](logits, labels, losses, log_sums, logits.stride(0), columns, BLOCK=4096)
        else:
            log_sums.copy_(logits.float().logsumexp(-1))
            losses.copy_(log_sums - logits.gather(-1, labels[:, None]).squeeze(-1))
        ctx.save_for_backward(logits, labels, log_sums)
        ctx.inplace_backward = inplace_backward
        z_losses = torch.empty_like(losses)
        ctx.mark_non_differentiable(z_losses)
        return losses, z_losses

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor, _: Any) -> tuple[torch.Tensor, None, None]:
        logits, labels, log_sums = ctx.saved_tensors
        gradients = logits if ctx.inplace_backward else torch.empty_like(logits)
        rows, columns = logits.shape
        if logits.is_cuda:
            grid = (rows, triton.cdiv(columns, 4096))
            _gradient_kernel[grid](
                gradients,
                logits,
                labels,
                log_sums,
                upstream,
                upstream.stride(0),
                logits.stride(0),
                columns,
                BLOCK=4096,
            )
        else:
            probabilities = (logits.float() - log_sums[:, None]).exp()
            probabilities -= F.one_hot(labels, columns)
            gradients.copy_(probabilities * upstream[:, None])
        return gradients, None, None


def cross_entropy_loss(
    logits: torch.Tensor, labels: torch.Tensor, inplace_backward: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """``flash_attn.ops.triton.cross_entropy.cross_entropy_loss``, as far as verl uses it."""
    losses, z_losses = CrossEntropy.apply(logits, labels, inplace_backward)
    return losses, z_losses


def stand_in_for_flash_attn() -> None:
    """Puts a ``flash_attn`` in place that transformers and verl take for the package."""
    contents: dict[str, dict[str, Any]] = {
        "flash_attn": {
            "__version__": "2.8.3",
            "flash_attn_func": None,
            "flash_attn_varlen_func": varlen_attention,
            "flash_attn_with_kvcache": None,
        },
        "flash_attn.bert_padding": dict.fromkeys(
            ("index_first_axis", "pad_input", "rearrange", "unpad_input"), mock.Mock()
        ),
        "flash_attn.ops": {},
        "flash_attn.ops.triton": {},
        "flash_attn.ops.triton.cross_entropy": {"cross_entropy_loss": cross_entropy_loss},
    }
    for name, values in contents.items():
        module = types.ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        vars(module).update(values, __path__=[])
        sys.modules[name] = module

    from transformers import modeling_flash_attention_utils as flash

    flash.is_flash_attn_2_available = lambda: True
    flash.FLASH_ATTENTION_COMPATIBILITY_MATRIX[2]["general_availability_check"] = lambda: True


def run_on_the_cpu() -> None:
    """Makes verl take the CPU for its accelerator, for a dry run."""
    from verl.plugin.platform.platform_cuda import PlatformCUDA

    module = mock.MagicMock()
    module.mem_get_info.return_value = (0, 0)
    module.memory_allocated.return_value = module.memory_reserved.return_value = 0
    for name, value in {
        "device_name": "cpu",
        "device_module": module,
        "current_device": lambda self: torch.device("cpu"),
        "empty_cache": lambda self: None,
        "is_available": lambda self: True,
    }.items():
        setattr(PlatformCUDA, name, value)


def prepare_imports() -> None:
    """Imports verl's engine with the stand-ins in place; takes seconds, and once for all engines."""
    missing = tuple(name for name in Permissive.names if importlib.util.find_spec(name) is None)
    Permissive.names = missing
    sys.meta_path.append(Permissive())
    stand_in_for_flash_attn()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import peft  # noqa: F401

        if not torch.cuda.is_available():
            run_on_the_cpu()
        import verl.workers.engine.fsdp.transformer_impl
        import verl.workers.utils.losses  # noqa: F401
        from transformers import AutoModelForCausalLM  # noqa: F401


def random_model(config: Any, dtype: torch.dtype) -> Any:
    """A causal language model with small random weights, in seconds."""
    from transformers import AutoModelForCausalLM
    from transformers.initialization import no_init_weights

    with no_init_weights():
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    model.tie_weights()
    pattern = 0.02 * torch.randn(1 << 20, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_meta:
                continue
            if parameter.ndim == 1:
                parameter.fill_(1.0)
                continue
            for part in parameter.view(-1).split(len(pattern)):
                part.copy_(pattern[: len(part)])
    return model


def write_config(model: str, directory: str, *, tiny: bool) -> None:
    """Writes the ``config.json`` of a profile of this repository."""
    from transformers import AutoConfig
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    from tuner.models import find_model

    shape = find_model(model)
    if tiny:
        shape = replace(
            shape, hidden=64, layers=2, heads=4, kv_heads=2, head_dim=16, intermediate=128, vocab=512
        )
    AutoConfig.for_model(
        shape.architecture,
        architectures=[MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[shape.architecture]],
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        intermediate_size=shape.intermediate,
        vocab_size=shape.vocab,
        tie_word_embeddings=shape.tied_embeddings,
        max_position_embeddings=shape.max_positions,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    ).save_pretrained(directory)


def build_engine(settings: EngineSettings, directory: str) -> Any:
    """verl's engine with these settings and random weights."""
    from verl.trainer.config import CheckpointConfig
    from verl.workers.config import FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

    fused = settings.fused_kernels
    model_config = HFModelConfig(
        path=directory,
        load_tokenizer=False,
        enable_gradient_checkpointing=settings.gradient_checkpointing,
        enable_activation_offload=settings.activation_offload,
        use_remove_padding=True,
        lora_rank=settings.lora_rank,
        use_fused_kernels=fused is not None,
        fused_kernel_options={"impl_backend": fused} if fused else {},
    )
    engine_config = FSDPEngineConfig(
        strategy=settings.strategy,
        model_dtype=settings.model_dtype,
        param_offload=settings.param_offload,
        optimizer_offload=settings.optimizer_offload,
        forward_only=settings.forward_only_engine,
        reshard_after_forward=settings.reshard_after_forward,
        forward_prefetch=settings.forward_prefetch,
        use_torch_compile=settings.use_torch_compile,
        use_no_sync_for_gradient_accumulation=settings.deferred_gradient_sync,
        entropy_checkpointing=settings.entropy_checkpointing,
        entropy_from_logits_with_chunking=settings.entropy_chunking,
        ulysses_sequence_parallel_size=settings.ulysses,
        use_dynamic_bsz=False,
        use_fused_kernels=fused is not None,
    )
    engine = FSDPEngineWithLMHead(
        model_config=model_config,
        engine_config=engine_config,
        optimizer_config=FSDPOptimizerConfig(lr=1e-6, lr_warmup_steps=0, total_training_steps=100),
        checkpoint_config=CheckpointConfig(),
    )
    auto_class = types.SimpleNamespace(
        from_pretrained=lambda config, torch_dtype, **_: random_model(config, torch_dtype)
    )
    with mock.patch("verl.utils.model.get_hf_auto_model_class", return_value=auto_class):
        engine.initialize()
    return engine


def random_batch(settings: PassSettings, engine: Any, fused: bool) -> Any:
    """Sequences of equal length, half prompt and half response, as verl's workers receive them."""
    from verl.utils import tensordict_utils as tu

    ranks = engine.ulysses_sequence_parallel_size
    per_micro_batch = settings.tokens * ranks // settings.sequence_length
    count = per_micro_batch * settings.micro_batches
    prompt = settings.sequence_length // 2
    response = settings.sequence_length - prompt
    generator = torch.Generator().manual_seed(engine.get_data_parallel_rank())
    vocabulary = engine.model_config.hf_config.vocab_size
    tokens = torch.randint(vocabulary, (count, settings.sequence_length), generator=generator)

    def nested(values: torch.Tensor) -> torch.Tensor:
        return torch.nested.as_nested_tensor(list(values.contiguous()), layout=torch.jagged)

    return tu.get_tensordict(
        {
            "input_ids": nested(tokens),
            "position_ids": nested(torch.arange(settings.sequence_length).repeat(count, 1)),
            "prompts": nested(tokens[:, :prompt]),
            "responses": nested(tokens[:, prompt:]),
            "response_mask": nested(torch.ones(count, response)),
            "loss_mask": nested(torch.ones(count, response)),
            "old_log_probs": nested(torch.full((count, response), -12.0)),
            "advantages": nested(torch.randn(count, response, generator=generator)),
        },
        {
            "use_remove_padding": True,
            "use_dynamic_bsz": False,
            "micro_batch_size_per_gpu": per_micro_batch,
            "use_fused_kernels": fused,
            "calculate_entropy": settings.calculate_entropy,
            "temperature": settings.temperature,
            "global_batch_size": count * engine.get_data_parallel_size(),
        },
    )


class Meter:
    """Reads the allocator of this process's GPU; without one, every reading is 0."""

    def __init__(self) -> None:
        self._cuda = torch.cuda.is_available()

    def reset(self) -> None:
        gc.collect()
        if self._cuda:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def allocated(self) -> int:
        return torch.cuda.memory_allocated() if self._cuda else 0

    def peaks(self) -> dict[str, int]:
        if not self._cuda:
            return dict.fromkeys(("peak_allocated_bytes", "peak_reserved_bytes", "non_torch_bytes"), 0)
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        return {
            "peak_allocated_bytes": torch.cuda.max_memory_allocated(),
            "peak_reserved_bytes": torch.cuda.max_memory_reserved(),
            "non_torch_bytes": total - free - torch.cuda.memory_reserved(),
        }


def run_pass(engine: Any, engine_settings: EngineSettings, settings: PassSettings) -> dict[str, Any]:
    """One pass as verl's training worker makes it, and what the allocator saw."""
    from verl.workers.config import FSDPActorConfig
    from verl.workers.utils.losses import ppo_loss

    data = random_batch(settings, engine, fused=engine_settings.fused_kernels is not None)
    actor = FSDPActorConfig(
        strategy=engine_settings.strategy,
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        entropy_coeff=0.001 if settings.calculate_entropy else 0.0,
    )
    update = settings.kind == "update"
    meter = Meter()
    dist.barrier()
    meter.reset()
    before = meter.allocated()
    begin = time.perf_counter()
    mode: AbstractContextManager[Any] = engine.train_mode() if update else engine.eval_mode()
    with mode:
        loaded = meter.allocated()
        if update:
            output = engine.train_batch(data, loss_function=partial(ppo_loss, actor))
        else:
            output = engine.infer_batch(data)
    peaks = meter.peaks()
    seconds = round(time.perf_counter() - begin, 3)
    if update and engine.is_mp_src_rank_with_outputs() and not output["metrics"]["grad_norm"] < float("inf"):
        raise RuntimeError("the gradient is not finite: AdamW made no step")
    pass_fields = asdict(settings)
    return {
        **asdict(engine_settings),
        "world_size": dist.get_world_size(),
        "pass": pass_fields.pop("kind"),
        **pass_fields,
        "allocated_before_bytes": before,
        "allocated_loaded_bytes": loaded,
        **peaks,
        "seconds": seconds,
    }


def run_case(case: Case, port: int, dry_run: bool, results: Any) -> None:
    """Everything that happens in one fresh process: an engine, a warm-up and the passes."""
    os.environ["MASTER_PORT"] = str(port)
    os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(
        backend="cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=ENGINE_TIMEOUT
    )
    planned = list(case.passes)
    if dry_run:
        planned = [replace(item, tokens=item.tokens // 256, sequence_length=4) for item in planned]
    try:
        with tempfile.TemporaryDirectory() as directory:
            write_config(case.engine.model, directory, tiny=dry_run)
            engine = build_engine(case.engine, directory)
        for settings in warm_up(planned):
            run_pass(engine, case.engine, settings)
        for settings in planned:
            results.send(run_pass(engine, case.engine, settings))
    except Exception:
        results.send(traceback.format_exc())
    results.close()
    sys.stdout.flush()
    os._exit(0)  # one rank may have failed: wait for nobody


def warm_up(planned: Sequence[PassSettings]) -> Iterator[PassSettings]:
    """One small pass of every kind, so that compiled functions and AdamW's states exist."""
    for kind in sorted({settings.kind for settings in planned}):
        for entropy in sorted({settings.calculate_entropy for settings in planned}):
            length = planned[0].sequence_length
            yield replace(
                planned[0],
                kind=kind,
                calculate_entropy=entropy,
                tokens=2 * length,
                micro_batches=1,
            )


def outcome(case: Case, port: int, dry_run: bool) -> list[dict[str, Any]]:
    """The records of a case, by a process of its own; fewer than planned if it failed."""
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    process = fork.Process(target=run_case, args=(case, port, dry_run, sender))
    process.start()
    sender.close()
    records: list[dict[str, Any]] = []
    deadline = time.monotonic() + ENGINE_TIMEOUT.total_seconds()
    try:
        while receiver.poll(max(0.0, deadline - time.monotonic())):
            message = receiver.recv()
            if isinstance(message, str):
                print(message, file=sys.stderr, flush=True)
                break
            records.append(message)
        else:
            print("the engine took too long", file=sys.stderr, flush=True)
    except EOFError:
        pass
    process.join(10)
    if process.is_alive():
        process.kill()
        process.join()
    return records


def hardware() -> str:
    """The GPUs and their driver."""
    if not torch.cuda.is_available():
        return "no GPU (dry run)"
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    lines = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()
    name, total, driver = (part.strip() for part in lines[0].split(","))
    return f"{len(lines)} x {name} ({total}), driver {driver}"


def write(path: Path, records: Sequence[dict[str, Any]]) -> None:
    """The file, whole."""
    versions = {
        name: importlib.metadata.version(name) for name in ("verl", "transformers", "tensordict", "peft")
    }
    document = {
        "what": WHAT.format(verl=versions["verl"]),
        "hardware": hardware(),
        "software": {**versions, "torch": torch.__version__},
        "notes": NOTES,
        "date": date.today().isoformat(),
        "cases": list(records),
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


def main() -> None:
    """Runs every chosen case, one after the other."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, help="the JSON file to write")
    parser.add_argument("--cases", nargs="+", choices=list(cases()), metavar="NAME", help="default: all")
    parser.add_argument("--dry-run", action="store_true", help="tiny models, without a GPU if there is none")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(cases()))
        return
    if arguments.output is None:
        parser.error("--output is required")
    prepare_imports()
    rank = int(os.environ["RANK"])
    port = int(os.environ["MASTER_PORT"])
    records: list[dict[str, Any]] = []
    for index, name in enumerate(arguments.cases or cases(), start=1):
        begin = time.perf_counter()
        found = outcome(cases()[name], port + index, arguments.dry_run)
        if rank == 0:
            records += found
            write(arguments.output, records)
            taken = time.perf_counter() - begin
            peaks = " ".join(f"{record['peak_allocated_bytes'] / 2**30:.2f}" for record in found)
            print(
                f"{name}: {len(found)}/{len(cases()[name].passes)} passes, {taken:.0f} s: {peaks} GiB",
                flush=True,
            )


if __name__ == "__main__":
    main()
