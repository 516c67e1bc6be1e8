"""Stages of a layer's backward pass against what FakeTensor counts in transformers' own implementation.

At any number of tokens the stage that needs the most must need what the layer does: gradients of its
weights together with activations. The count holds the gradient of the layer's output to the end, which
the engine gives back once the MLP is done.
"""

from functools import cache, partial
from itertools import accumulate
from typing import Any

import pytest
from msgspec.structs import replace

from tests import workloads
from tests.memory.test_activations_traced import shallow
from tuner.memory.layer.backward_stages import backward_stages
from tuner.models import shape_from_config
from tuner.workload import Checkpointing

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from tuner.trace import count  # noqa: E402
from tuner.trace.autocast import autocast  # noqa: E402
from tuner.trace.storages import Storages  # noqa: E402

# Messages of transformers about its own future are not about the counts.
pytestmark = pytest.mark.filterwarnings("ignore")

COUNTED_TOKENS = 4096
CASES = [
    ("llama", 0),
    ("qwen2", 0),
    ("qwen3", 0),
    ("gemma2", 0),
    ("phi3", 0),
    ("qwen3_moe", 0),
    ("mixtral", 0),
    ("qwen2_moe", 0),
    ("deepseek_v2", 0),
    ("deepseek_v2", 1),
    ("deepseek_v3", 0),
    ("deepseek_v3", 1),
]


@cache
def counted(architecture: str, layer: int, *, checkpointed: bool) -> tuple[tuple[int, int], ...]:
    """At every event of the backward pass: bytes of gradients, and of everything else of the layer."""
    config = transformers.AutoConfig.for_model(**shallow(architecture))
    with FakeTensorMode(), torch.device("cpu"):
        module, given = count._layer_and_arguments(config, layer, COUNTED_TOKENS)
        hidden = given.hidden.detach().requires_grad_()
        run: Any = given.call
        if checkpointed:
            run = partial(checkpoint, given.call, use_reentrant=False, preserve_rng_state=False)
        with Storages(count._state(module), hidden, given.others, given.named) as storages:
            with autocast():
                output = run(module, hidden)
            own = storages.numbers(output)
            storages.backward = True
            torch.autograd.backward([output], [torch.empty_like(output)])
            grads = storages.numbers([each.grad for each in module.parameters() if each.grad is not None])
    changes = [
        (size, 0) if number in grads else (0, size) for number, size in storages.events if number not in own
    ]
    sums = accumulate(changes, lambda total, change: (total[0] + change[0], total[1] + change[1]))
    most: dict[int, int] = {}
    for gradients, others in sums:
        most[gradients] = max(most.get(gradients, 0), others)
    return tuple(most.items())


@pytest.mark.sampled(6)
@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize(("architecture", "layer"), CASES)
def test_the_largest_stage_is_what_the_layer_needs(architecture: str, layer: int, checkpointed: bool) -> None:
    model = shape_from_config(shallow(architecture), name=architecture, source="test")
    engine = replace(
        workloads.grpo_0_5b().actor.engine,
        checkpointing=Checkpointing.FULL if checkpointed else Checkpointing.NONE,
        fused_layers=False,
    )
    stages = backward_stages(model, engine, layer)
    events = counted(architecture, layer, checkpointed=checkpointed)
    output = engine.compute_dtype.bytes * model.hidden
    for tokens in (2048, 4096, 8192, 32768):
        needed = max(gradients + others * tokens // COUNTED_TOKENS for gradients, others in events)
        found = max(
            engine.compute_dtype.bytes * each.gradients + tokens * each.activations for each in stages
        )
        assert needed - 1.01 * tokens * output <= found <= 1.0005 * needed


def test_gradients_come_as_activations_go() -> None:
    """Otherwise one of the stages would never need the most."""
    model = workloads.grpo_moe_30b().model
    engine = replace(workloads.grpo_7b().actor.engine, checkpointing=Checkpointing.FULL)
    stages = backward_stages(model, engine, 0)
    gradients = [each.gradients for each in stages]
    activations = [each.activations for each in stages]
    assert gradients == sorted(gradients) and len(set(gradients)) == len(stages)
    assert activations == sorted(activations, reverse=True)
    assert gradients[0] == 0 and gradients[-1] == model.layer_parameters(0)
