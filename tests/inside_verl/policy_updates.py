"""Updates of verl's own workers on a model of transformers: from its logits, or with the head.

verl's splitting, its preparation of a model's inputs and outputs, its losses and its loops are the real ones
of the release that can be imported.
"""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest import mock

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.inside_verl.updates import VOCABULARY, engine_worker, legacy_actor, random_batch, unpad

SEQUENCES = 8


class Model(LlamaForCausalLM):
    """A class of its own, which is given the head and leaves that of transformers as it is."""


class Steps:
    """Gradient descent, whose gradients are kept and then clipped, as verl clips them."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        self.sgd = torch.optim.SGD(module.parameters(), lr=0.1)
        self.gradients: list[torch.Tensor] = []

    def zero_grad(self) -> None:
        self.sgd.zero_grad()

    def step(self) -> torch.Tensor:
        flat = torch.cat([p.grad.flatten() for p in self.module.parameters() if p.grad is not None])
        self.gradients.append(flat)
        torch.nn.utils.clip_grad_norm_(self.module.parameters(), 1.0)
        self.sgd.step()
        return flat.norm()

    def weights(self) -> torch.Tensor:
        return torch.cat([parameter.detach().flatten() for parameter in self.module.parameters()])


def small_model() -> Model:
    torch.manual_seed(0)
    return Model(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            initializer_range=0.4,
            attn_implementation="eager",
        )
    )


def batches(count: int) -> list[dict[str, torch.Tensor]]:
    """What an update reads, with the log-probabilities of a reference and weights of the rollout."""
    made = []
    for seed in range(count):
        generator = torch.Generator().manual_seed(seed)
        batch = random_batch(generator, SEQUENCES, zero_share=0.25)
        shape = batch["old_log_probs"].shape
        noise = torch.randn(shape, generator=generator)
        batch["ref_log_prob"] = batch["old_log_probs"] + 0.5 * noise
        batch["rollout_is_weights"] = 0.5 + torch.rand(shape, generator=generator)
        made.append(batch)
    return made


def engine_of(model: Model) -> Any:
    """verl's ``TrainingWorker`` with its FSDP engine around a model that is not sharded."""
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

    ranks = torch.distributed.get_world_size()
    groups = [torch.distributed.new_group([rank]) for rank in range(ranks)]
    alone = groups[torch.distributed.get_rank()]

    class Engine(FSDPEngineWithLMHead):
        def __init__(self) -> None:
            self.module = model
            self.optimizer = Steps(model)
            self.ulysses_sequence_parallel_size = ranks
            self.use_ulysses_sp = ranks > 1
            self.pad_to_length = None
            self._autocast_dtype = torch.float32

        get_data_parallel_group = lambda self: alone  # noqa: E731
        get_data_parallel_size = lambda self: 1  # noqa: E731
        get_data_parallel_rank = lambda self: 0  # noqa: E731
        is_mp_src_rank_with_outputs = lambda self: True  # noqa: E731
        train_mode = lambda self, **_: nullcontext()  # noqa: E731
        _gradient_sync_context = lambda self, **_: nullcontext()  # noqa: E731
        _get_packed_pad_size = lambda self, length: 0  # noqa: E731
        optimizer_zero_grad = lambda self: self.optimizer.zero_grad()  # noqa: E731
        optimizer_step = lambda self: float(self.optimizer.step())  # noqa: E731
        lr_scheduler_step = lambda self: 0.1  # noqa: E731

    return Engine()


def _pad(values: Any, *, indices: torch.Tensor, batch: int, seqlen: int) -> torch.Tensor:
    """``flash_attn.bert_padding.pad_input`` without flash-attn."""
    padded = values.new_zeros(batch * seqlen, *values.shape[1:]).index_copy(0, indices, values)
    return padded.unflatten(0, (batch, seqlen))


@contextmanager
def without_flash_attn() -> Iterator[None]:
    """Gives verl's modules the functions that they import of flash-attn; and computes in float32."""
    functions = {
        "unpad_input": unpad,
        "pad_input": lambda hidden_states, indices, batch, seqlen: _pad(
            hidden_states, indices=indices, batch=batch, seqlen=seqlen
        ),
        "index_first_axis": lambda values, indices: values[indices],
        "rearrange": _rearrange,
    }
    with mock.patch("torch.autocast", return_value=nullcontext()):
        try:
            module = importlib.import_module("verl.workers.actor.dp_actor")
        except ImportError:
            yield
            return
        with mock.patch.multiple(module, create=True, **functions):
            yield


def _rearrange(values: torch.Tensor, pattern: str) -> torch.Tensor:
    assert pattern == "b s ... -> (b s) ..."
    return values.flatten(0, 1)


def legacy_of(model: Model, config: Any, *, padding: bool, head: bool, **settings: Any) -> Any:
    """verl's ``DataParallelPPOActor`` around a model that is not sharded."""
    from verl.utils.torch_functional import entropy_from_logits
    from verl.workers.actor.dp_actor import DataParallelPPOActor

    ranks = torch.distributed.get_world_size()
    actor = legacy_actor(config, entropy_checkpointing=False, **settings)
    steps = Steps(model)

    class Actor(DataParallelPPOActor):
        def __init__(self) -> None:
            vars(self).update(vars(actor))

        def _optimizer_step(self) -> torch.Tensor:
            return steps.step()

    own = Actor()
    vars(own).update(
        actor_module=model,
        actor_optimizer=steps,
        use_remove_padding=not padding,
        use_fused_kernels=head,
        use_ulysses_sp=ranks > 1,
        ulysses_sequence_parallel_size=ranks,
        device_name="cpu",
        param_dtype=torch.float32,
        compute_entropy_from_logits=entropy_from_logits,
    )
    return own


def worker_with(engine: Any, config: Any, *, padding: bool, head: bool, **settings: Any) -> Any:
    """A training worker of verl with this engine."""
    worker = engine_worker(config, use_fused_kernels=head, **settings)
    worker.engine = engine
    engine.engine_config = worker.engine_config
    for name, value in {"entropy_checkpointing": False, "entropy_from_logits_with_chunking": False}.items():
        setattr(worker.engine_config, name, value)
    engine.compute_entropy_from_logits = importlib.import_module(
        "verl.utils.torch_functional"
    ).entropy_from_logits
    worker.model_config.use_remove_padding = not padding
    worker.model_config.get = lambda name, default=None: getattr(worker.model_config, name, default)
    return worker
