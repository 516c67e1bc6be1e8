"""The moments under FSDP1 against torch's own FSDP1, run on tensors without data.

As :mod:`tests.memory.test_fsdp2_simulated`, with one GPU, where torch has no shards, and with several.
"""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
from msgspec import structs

from tests import workloads
from tuner.dtypes import DType
from tuner.memory.batch.fields import batch_token_bytes
from tuner.memory.batch.micro_batch import PassInput
from tuner.memory.fsdp.units import has_held_weights
from tuner.memory.layer import activations
from tuner.memory.passes import pass_moments
from tuner.models import shape_from_config
from tuner.workload import Backend, Checkpointing, Engine, HeadKind, OutputHead, Parallelism

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.distributed.fsdp import (  # noqa: E402
    FullyShardedDataParallel,
    MixedPrecision,
    ShardingStrategy,
    _flat_param,
)
from torch.distributed.fsdp._runtime_utils import _lazy_init  # noqa: E402
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy  # noqa: E402

from tests.memory.test_fsdp2_simulated import CONFIGS, one_pass, ranks  # noqa: E402
from tuner.trace import count  # noqa: E402
from tuner.trace.storages import Storages  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

FULL, HALF = DType.FLOAT32, DType.BFLOAT16
TORCH = {FULL: torch.float32, HALF: torch.bfloat16}


@dataclass(frozen=True, kw_only=True)
class Run:
    """Passes to simulate: one, or those of the micro-batches of a step."""

    config: str = "untied"
    tokens: int = 256
    training: bool = True
    checkpointing: bool = True
    reshards: bool = True
    ranks: int = 1
    stored: DType = FULL
    reduced: DType = FULL
    micro_batches: int = 1
    defers: bool = False


@contextmanager
def resizes_noted(storages: Storages) -> Iterator[None]:
    """FSDP1 allocates and frees weights by resizing their storage, which is no operation on tensors."""
    allocate, free = _flat_param._alloc_storage, _flat_param._free_storage

    def noted(change: Any, sign: int, tensor: Any, *size: Any) -> None:
        before = tensor.untyped_storage().size()
        change(tensor, *size)
        after = tensor.untyped_storage().size()
        if after != before:
            (number,) = storages.numbers(tensor)
            storages.events.append((number, sign * max(before, after)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_flat_param, "_alloc_storage", partial(noted, allocate, 1))
        patch.setattr(_flat_param, "_free_storage", partial(noted, free, -1))
        yield


def sharded_model(run: Run) -> Any:
    """The model as verl wraps it."""
    count._register_flash_attention()
    config = transformers.AutoConfig.for_model(**CONFIGS[run.config])
    model = transformers.AutoModelForCausalLM.from_config(
        config, dtype=TORCH[run.stored], attn_implementation="eager"
    )
    model.train()
    model.model.config._attn_implementation = count.FLASH
    if run.checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    layers = {type(layer) for layer in model.model.layers}
    return FullyShardedDataParallel(
        model,
        auto_wrap_policy=partial(transformer_auto_wrap_policy, transformer_layer_cls=layers),
        device_id=torch.device("cpu"),
        sharding_strategy=ShardingStrategy.FULL_SHARD if run.reshards else ShardingStrategy.SHARD_GRAD_OP,
        mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=TORCH[run.reduced]),
        use_orig_params=False,
    )


def simulated_peak(run: Run) -> int:
    """Bytes that a second pass allocates, or a second step, at their peak."""
    with ranks(run.ranks), FakeTensorMode(allow_non_fake_inputs=True):
        model = sharded_model(run)
        with Storages(list(model.parameters()), list(model.buffers())) as storages, resizes_noted(storages):
            one_pass(model, run, storages)
            for handle in model._all_handles:
                if handle.uses_sharded_strategy:
                    handle.reshard(True)
            model.zero_grad()
            start = len(storages.events)
            for left in reversed(range(run.micro_batches)):
                with model.no_sync() if run.defers and left else nullcontext():
                    one_pass(model, run, storages)
            peak: int = storages.peak(start)
            return peak


def engine_of(run: Run) -> Engine:
    return structs.replace(
        workloads.grpo_0_5b().actor.engine,
        backend=Backend.FSDP,
        parallel=Parallelism(gpus=run.ranks, shard=run.ranks),
        checkpointing=Checkpointing.FULL if run.checkpointing else Checkpointing.NONE,
        reshard_after_forward=run.reshards,
        stored_dtype=run.stored,
        optimizer_dtype=run.stored,
        reduce_dtype=run.reduced,
        deferred_gradient_sync=run.defers,
        fused_layers=False,
    )


def predicted(run: Run) -> tuple[str, int]:
    """The highest moment before the optimizer's step and its bytes, without workspaces.

    Of the batch's fields this one has the tokens and their positions. Rotary tables are counted with
    them; they are gone at a projection without gradients, and after the layers.
    """
    model, engine = shape_from_config(CONFIGS[run.config], name=run.config, source="test"), engine_of(run)
    given = PassInput(
        model=model,
        engine=engine,
        head=OutputHead(kind=HeadKind.LOGITS, fused_cross_entropy=True),
        tokens=run.tokens,
        entropy=False,
        micro_batches=run.micro_batches,
    )
    left_out = ("cublas_workspaces", "batch")
    tables = activations.shared_token_bytes(model, engine) - batch_token_bytes(engine)
    moments = [
        (sum(term.bytes for term in moment.terms if term.name not in left_out), moment.name)
        for moment in pass_moments(given, training=run.training)
        if moment.name != "optimizer_step"
    ]
    size, name = max(moments)
    gone = name in ("projection", "embedding_backward", "root_reduce")
    return name, size + run.tokens * (16 if gone else tables + 16)


CASES = [
    *(
        Run(config=config, stored=stored, training=training, tokens=8192, checkpointing=training)
        for config in ("tied", "large-head")
        for stored in (FULL, HALF)
        for training in (True, False)
    ),
    *(
        Run(config=config, stored=stored, reduced=reduced, micro_batches=2, ranks=number)
        for config, reduced in (("large-head", FULL), ("large-head", HALF), ("experts", FULL))
        for stored in (FULL, HALF)
        for number in (1, 2)
    ),
    *(
        Run(config="experts", stored=stored, micro_batches=3, defers=True, ranks=number)
        for stored in (FULL, HALF)
        for number in (1, 4)
    ),
    *(Run(config="tied", stored=stored, reshards=False) for stored in (FULL, HALF)),
    *(Run(config="untied", tokens=1024, stored=stored) for stored in (FULL, HALF)),
    Run(config="untied", training=False, tokens=512),
    Run(config="untied", tokens=1024, checkpointing=False, stored=HALF),
    Run(config="untied", tokens=1024, ranks=8),
    Run(config="large-head", training=False, checkpointing=False, ranks=4),
]


@pytest.mark.sampled(16)
@pytest.mark.parametrize("run", CASES, ids=lambda run: "-".join(str(value) for value in vars(run).values()))
def test_the_peak_is_that_of_torch(run: Run) -> None:
    moment, size = predicted(run)
    assert size == pytest.approx(simulated_peak(run), rel=0.005), moment


def test_the_cases_peak_at_many_moments() -> None:
    """Otherwise the moments that never are the peak would not be tested."""
    assert len({predicted(run)[0] for run in CASES}) >= 7


@pytest.mark.sampled(8)
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("stored", [FULL, HALF])
def test_the_modules_of_one_gpu_hold_weights_that_are_not_cast(stored: DType, number: int) -> None:
    """The flat parameters are moved as verl's offload moves them: to a copy elsewhere."""
    run = Run(stored=stored, ranks=number)

    def held(model: Any) -> int:
        before = []
        for handle in model._all_handles:
            before.append((weakref.ref(handle.flat_param.untyped_storage()), handle.flat_param.numel()))
            handle.flat_param_to("cpu", copy=True)
            handle.flat_param._local_shard = handle.flat_param.data
        return sum(numel for storage, numel in before if storage() is not None)

    with ranks(number), FakeTensorMode(allow_non_fake_inputs=True):
        model = sharded_model(run)
        _lazy_init(model, model)
        parameters = sum(handle.flat_param.numel() for handle in model._all_handles)
        with Storages() as storages:
            assert held(model) == (parameters if number == 1 else 0), "from construction on"
            one_pass(model, replace(run, training=False), storages)
            after_forward = held(model)
            one_pass(model, run, storages)
            after_training = held(model)
    assert after_forward == after_training == (parameters if has_held_weights(engine_of(run)) else 0)
