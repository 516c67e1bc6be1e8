"""What recomputing a layer costs: its forward pass but for the last product, as PyTorch does it."""

from typing import Any

import pytest
import torch
from msgspec.structs import replace
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import Qwen2Config, Qwen2ForCausalLM

from tests import workloads
from tuner.timing import layer as per_layer
from tuner.timing.assumptions import POSITIONS_S
from tuner.timing.fsdp import pass_parts
from tuner.timing.job import LayerCompute, TimedPasses, layer_compute
from tuner.workload import Checkpointing, Workload

PRODUCTS = 7  # of a layer: queries, keys, values, output, gate, up, down


class _Products(TorchDispatchMode):
    """Counts matrix products."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func._overloadpacket.__name__ in ("mm", "addmm")
        return func(*args, **(kwargs or {}))


def products_of_a_backward_pass(layers: int, *, recomputes: bool) -> int:
    model = Qwen2ForCausalLM(
        Qwen2Config(
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=2,
            vocab_size=64,
        )
    ).train()
    if recomputes:  # as verl asks for it
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    loss = model.model(torch.randint(64, (1, 8)), use_cache=False).last_hidden_state.sum()
    with _Products() as products:
        loss.backward()
    return products.count


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing_enable.*:FutureWarning")
@pytest.mark.parametrize("layers", [1, 3])
def test_pytorch_does_not_compute_the_last_product_again(layers: int) -> None:
    kept, recomputed = (
        products_of_a_backward_pass(layers, recomputes=recomputes) for recomputes in (False, True)
    )
    assert kept == 2 * PRODUCTS * layers
    assert recomputed - kept == (PRODUCTS - 1) * layers


def compute(workload: Workload, checkpointing: Checkpointing) -> tuple[TimedPasses, LayerCompute]:
    step_pass = replace(workload.with_actor_engine(checkpointing=checkpointing).actor_update)
    job = TimedPasses(cluster=workload.cluster, batch=workload.batch, step_pass=step_pass)
    return job, layer_compute(job)


def test_neither_does_the_model() -> None:
    job, recomputed = compute(workloads.grpo_7b(), Checkpointing.FULL)
    _, kept = compute(workloads.grpo_7b(), Checkpointing.NONE)
    layer = job.layer
    last = per_layer.product_seconds(
        layer.hidden * layer.intermediate,
        job.micro.tokens,
        job.cluster.gpu,
        job.engine.compute_dtype,
        width=layer.width(1),
    )
    assert recomputed.forward == kept.forward
    assert recomputed.backward - kept.backward == pytest.approx(kept.forward - last)


def test_megatron_computes_the_whole_layer_again() -> None:
    workload = workloads.grpo_32b_megatron()
    (_, recomputed), (_, kept) = (
        compute(workload, checkpointing) for checkpointing in (Checkpointing.FULL, Checkpointing.NONE)
    )
    assert recomputed.backward - kept.backward == pytest.approx(kept.forward)


@pytest.mark.parametrize(
    ("checkpointing", "trains", "times"),
    [(Checkpointing.FULL, True, 2), (Checkpointing.NONE, True, 1), (Checkpointing.FULL, False, 1)],
)
def test_attention_reads_positions_each_time_it_is_computed(
    checkpointing: Checkpointing, trains: bool, times: int
) -> None:
    workload = workloads.grpo_7b().with_actor_engine(checkpointing=checkpointing)
    jobs = [
        TimedPasses(
            cluster=workload.cluster,
            batch=workload.batch,
            step_pass=replace(
                workload.with_actor_engine(reads_positions=reads).actor_update, training=trains
            ),
        )
        for reads in (True, False)
    ]
    with_waits, without = (sum(pass_parts(job).values()) for job in jobs)
    waits = times * jobs[0].model.layers * jobs[0].micro.count * POSITIONS_S
    assert with_waits - without == pytest.approx(waits)
