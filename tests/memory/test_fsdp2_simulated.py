"""The moments under FSDP2 against torch's own FSDP2, run on tensors without data.

Torch gathers, reduces and frees the units of a small model of transformers; nothing is communicated.
What exists at the peak of a second pass must be what the estimate says, workspaces and the fields of a
batch aside.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from tests import workloads
from tuner.memory.batch.fields import batch_token_bytes
from tuner.memory.batch.micro_batch import PassInput
from tuner.memory.layer import activations
from tuner.memory.passes import pass_moments
from tuner.models import shape_from_config
from tuner.workload import Backend, Checkpointing, Engine, HeadKind, OutputHead, Parallelism

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import torch.distributed as dist  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard  # noqa: E402
from torch.distributed.fsdp._fully_shard import _fsdp_param  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402

from tuner.trace import count  # noqa: E402
from tuner.trace.autocast import autocast  # noqa: E402
from tuner.trace.storages import Storages  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

_DENSE = {
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 1408,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 8192,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}
_LATENT = {
    **_DENSE,
    "num_key_value_heads": 8,
    "kv_lora_rank": 128,
    "q_lora_rank": None,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
    "first_k_dense_replace": 1,
    "n_routed_experts": 16,
    "n_shared_experts": 1,
    "num_experts_per_tok": 4,
    "n_group": 1,
    "topk_group": 1,
    "moe_intermediate_size": 352,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "untied": _DENSE,
    "tied": {**_DENSE, "tie_word_embeddings": True},
    "large-head": {**_DENSE, "vocab_size": 65536},
    "experts": {
        **_DENSE,
        "model_type": "qwen3_moe",
        "hidden_size": 1024,
        "num_experts": 16,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": 352,
        "norm_topk_prob": True,
    },
    "latent": {**_LATENT, "model_type": "deepseek_v2"},
}


class InPlace(torch.autograd.Function):
    """A loss whose gradient takes the logits' place, as that of flash-attention's cross entropy does."""

    @staticmethod
    def forward(ctx: Any, logits: Any) -> Any:
        ctx.save_for_backward(logits)
        return logits.new_empty(())

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        return ctx.saved_tensors[0].detach()


@contextmanager
def ranks(number: int) -> Iterator[Any]:
    """The mesh of so many ranks, as one of them that communicates with nobody."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=number)
    try:
        yield init_device_mesh("cpu", (number,))
    finally:
        dist.destroy_process_group()


@contextmanager
def resizes_noted(storages: Storages) -> Iterator[None]:
    """FSDP2 frees weights by resizing their storage to nothing, which is no operation on tensors."""
    allocate, free = _fsdp_param.alloc_storage, _fsdp_param.free_storage

    def noted(change: Any, sign: int, tensor: Any) -> None:
        storage = tensor.untyped_storage()
        before = storage.size()
        change(tensor)
        if storage.size() != before:
            (number,) = storages.numbers(tensor)
            storages.events.append((number, sign * max(before, storage.size())))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_fsdp_param, "alloc_storage", partial(noted, allocate, 1))
        patch.setattr(_fsdp_param, "free_storage", partial(noted, free, -1))
        yield


@dataclass(frozen=True, kw_only=True)
class Run:
    """One pass to simulate."""

    config: str
    tokens: int
    training: bool
    checkpointing: bool = False
    reshards: bool = True
    ranks: int = 2


def sharded_model(run: Run, mesh: Any) -> Any:
    """The model, its units chosen as verl chooses them."""
    count._register_flash_attention()
    values = CONFIGS[run.config]
    config = transformers.AutoConfig.for_model(**values)
    model = transformers.AutoModelForCausalLM.from_config(
        config, dtype=torch.float32, attn_implementation="eager"
    )
    model.train()
    model.model.config._attn_implementation = count.FLASH
    if run.checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    own = [] if values["tie_word_embeddings"] else [model.model.embed_tokens, model.lm_head]
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for unit in (*own, *model.model.layers, model):
        fully_shard(unit, mesh=mesh, mp_policy=policy, reshard_after_forward=run.reshards)
    return model


def one_pass(model: Any, run: Run, storages: Storages) -> None:
    tokens = torch.zeros(1, run.tokens, dtype=torch.long)
    storages.backward = False
    with torch.set_grad_enabled(run.training), autocast():
        logits = model(input_ids=tokens, use_cache=False).logits
    if run.training:
        loss = InPlace.apply(logits)
        del logits
        storages.backward = True
        loss.backward()


def simulated_peak(run: Run) -> int:
    """Bytes that the second of two passes allocates, at their peak."""
    with ranks(run.ranks) as mesh, FakeTensorMode(allow_non_fake_inputs=True):
        model = sharded_model(run, mesh)
        with Storages(list(model.parameters()), list(model.buffers())) as storages, resizes_noted(storages):
            one_pass(model, run, storages)
            for module in model.modules():
                if isinstance(module, torch.distributed.fsdp.FSDPModule):
                    module.reshard()
            model.zero_grad()
            start = len(storages.events)
            one_pass(model, run, storages)
            peak: int = storages.peak(start)
            return peak


def predicted(run: Run) -> tuple[str, int]:
    """The highest moment before the optimizer's step and its bytes, without workspaces.

    Of the batch's fields this one has the tokens and their positions. Rotary tables, which the estimate
    counts with them, are gone at the projection where nothing is kept for a backward pass.
    """
    model = shape_from_config(CONFIGS[run.config], name=run.config, source="test")
    engine: Engine = replace(
        workloads.grpo_0_5b().actor.engine,
        backend=Backend.FSDP2,
        parallel=Parallelism(gpus=run.ranks, shard=run.ranks),
        checkpointing=Checkpointing.FULL if run.checkpointing else Checkpointing.NONE,
        reshard_after_forward=run.reshards,
        separate_embedding_units=not model.tied_embeddings,
        fused_layers=False,
    )
    head = OutputHead(kind=HeadKind.LOGITS, fused_cross_entropy=True)
    given = PassInput(
        model=model, engine=engine, head=head, tokens=run.tokens, entropy=False, micro_batches=1
    )
    left_out = ("cublas_workspaces", "batch")
    tables = activations.shared_token_bytes(model, engine) - batch_token_bytes(engine)
    moments = [
        (sum(term.bytes for term in moment.terms if term.name not in left_out), moment.name)
        for moment in pass_moments(given, training=run.training)
        if moment.name != "optimizer_step"
    ]
    size, name = max(moments)
    return name, size + run.tokens * (16 if name == "projection" else tables + 16)


CASES = [
    *(
        Run(config=name, tokens=tokens, training=True, checkpointing=checkpointing)
        for name in CONFIGS
        for tokens in (1024, 8192)
        for checkpointing in (False, True)
    ),
    *(Run(config=name, tokens=tokens, training=False) for name in CONFIGS for tokens in (512, 8192)),
    Run(config="untied", tokens=1024, training=True, ranks=8),
    Run(config="tied", tokens=1024, training=True, checkpointing=True, ranks=8),
    Run(config="latent", tokens=1024, training=True, checkpointing=True, ranks=8),
    Run(config="untied", tokens=1024, training=False, reshards=False),
    Run(config="tied", tokens=1024, training=True, reshards=False),
]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("run", CASES, ids=lambda run: "-".join(str(value) for value in vars(run).values()))
def test_the_peak_is_that_of_torch(run: Run) -> None:
    moment, size = predicted(run)
    assert size == pytest.approx(simulated_peak(run), rel=0.005), moment


def test_the_cases_peak_at_many_moments() -> None:
    """Otherwise the moments that never are the peak would not be tested."""
    assert len({predicted(run)[0] for run in CASES}) >= 7
