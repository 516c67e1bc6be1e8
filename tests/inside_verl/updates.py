"""An actor's update by verl's own code, on a model of a few weights: what the skip is held to.

verl's loss, its splitting into micro-batches, its training worker or legacy actor are the real ones of the
release that can be imported; only the model, its forward pass and the modules that this does without are
stand-ins.
"""

import importlib.util
import sys
import types
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch

VOCABULARY, PROMPT, RESPONSE = 11, 3, 6
_WITHOUT = (
    *(
        "accelerate",
        "cachetools",
        "codetiming",
        "datasets",
        "dill",
        "fastapi",
        "hydra",
        "liger_kernel",
        "pandas",
    ),
    *("peft", "psutil", "pyarrow", "pylatexenc", "ray", "torchdata", "uvicorn", "wandb"),
)


def verl_release() -> str | None:
    """The release of verl whose sources can be imported here, with tensordict beside them."""
    spec = importlib.util.find_spec("verl")
    if spec is None or spec.origin is None or importlib.util.find_spec("tensordict") is None:
        return None
    version = Path(spec.origin).parent / "version" / "version"
    return version.read_text().strip() if version.exists() else None


def prepare_imports() -> None:
    """Lets verl be imported where the packages are missing that these updates do without."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from measure.verl_engine.stand_ins import Permissive

    sys.path.pop(0)
    Permissive.names = tuple(name for name in _WITHOUT if importlib.util.find_spec(name) is None)
    sys.meta_path.append(Permissive())
    import transformers

    if not hasattr(transformers, "AutoModelForVision2Seq"):  # verl 0.6 asks for it by name
        transformers.AutoModelForVision2Seq = transformers.AutoModelForImageTextToText


def random_batch(generator: torch.Generator, sequences: int, zero_share: float) -> dict[str, torch.Tensor]:
    """Sequences with padding on both sides, as verl's trainer holds them; some without any advantage."""

    def random(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=generator)

    prompts = torch.randint(1, PROMPT + 1, (sequences, 1), generator=generator)
    responses = torch.randint(1, RESPONSE + 1, (sequences, 1), generator=generator)
    seen = torch.arange(PROMPT) >= PROMPT - prompts
    answered = torch.arange(RESPONSE) < responses
    attention = torch.cat([seen, answered], dim=1)
    advantages = torch.randn(sequences, 1, generator=generator) * (random(sequences, 1) >= zero_share)
    mask = answered & (random(sequences, RESPONSE) > 0.2)  # such as the answers of tools
    mask[:, 0] = True
    tokens = torch.randint(VOCABULARY, (sequences, PROMPT + RESPONSE), generator=generator)
    return {
        "input_ids": tokens,
        "attention_mask": attention.long(),
        "position_ids": (attention.cumsum(dim=1) - 1).clamp(min=0),
        "prompts": tokens[:, :PROMPT],
        "responses": tokens[:, PROMPT:],
        "response_mask": mask.long(),
        "old_log_probs": -2 - random(sequences, RESPONSE),
        "advantages": advantages * mask,
    }


class Policy(torch.nn.Module):
    """Log-probabilities of a token by the one before it and its position."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.table = torch.nn.Parameter(torch.randn(VOCABULARY, VOCABULARY, generator=generator))
        self.by_position = torch.nn.Parameter(torch.randn(PROMPT + RESPONSE, VOCABULARY, generator=generator))

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        logits = self.table[tokens] + self.by_position[positions]
        return torch.log_softmax(logits, dim=-1).gather(-1, following.unsqueeze(-1)).squeeze(-1)


class Recorded:
    """AdamW whose gradients are kept: those of every step, averaged over the ranks as FSDP does."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        self.adamw = torch.optim.AdamW(module.parameters(), lr=0.1, weight_decay=0.1)
        self.gradients: list[torch.Tensor] = []

    def zero_grad(self) -> None:
        self.adamw.zero_grad()

    def step(self) -> torch.Tensor:
        for parameter in self.module.parameters():
            assert parameter.grad is not None, (
                "a step without a gradient would leave the momentum where it is"
            )
            if torch.distributed.is_initialized():
                torch.distributed.all_reduce(parameter.grad)
                parameter.grad /= torch.distributed.get_world_size()
        flat = torch.cat([p.grad.flatten() for p in self.module.parameters() if p.grad is not None])
        self.gradients.append(flat)
        self.adamw.step()
        return flat.norm()

    def weights(self) -> torch.Tensor:
        return torch.cat([parameter.detach().flatten() for parameter in self.module.parameters()])


def loss_config(**settings: Any) -> Any:
    """What verl's losses read of the actor's configuration."""
    policy_loss = types.SimpleNamespace(loss_mode=settings.pop("loss_mode", "vanilla"))
    policy_loss.get = lambda name, default=None: getattr(policy_loss, name, default)
    config: Any = types.SimpleNamespace()
    with suppress(ImportError):  # of 0.6 on, which some losses ask for by its type
        from verl.workers.config import ActorConfig

        config = object.__new__(ActorConfig)
    vars(config).update(
        {
            "clip_ratio": 0.2,
            "clip_ratio_low": None,
            "clip_ratio_high": None,
            "clip_ratio_c": 3.0,
            "tau_pos": 1.0,
            "tau_neg": 1.05,
            "entropy_coeff": 0,
            "calculate_entropy": False,
            "use_kl_loss": False,
            "loss_agg_mode": "token-mean",
            "loss_scale_factor": None,
            "global_batch_info": {},
            "policy_loss": policy_loss,
            **settings,
        }
    )
    config.get = lambda name, default=None: getattr(config, name, default)
    return config


def engine_worker(config: Any, **settings: Any) -> Any:
    """verl's ``TrainingWorker`` with an engine whose batches go verl's way, and a model of a few weights."""
    from verl.workers.engine.base import BaseEngine
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngine
    from verl.workers.engine_workers import TrainingWorker
    from verl.workers.utils.losses import ppo_loss

    class Engine(BaseEngine):
        ulysses_sequence_parallel_size = 1

        def __init__(self) -> None:
            self.module = Policy()
            self.optimizer = Recorded(self.module)

        def get_data_parallel_group(self) -> Any:
            return torch.distributed.group.WORLD

        def get_data_parallel_size(self) -> int:
            return torch.distributed.get_world_size()

        def get_data_parallel_rank(self) -> int:
            return torch.distributed.get_rank()

        def is_mp_src_rank_with_outputs(self) -> bool:
            return True

        def train_mode(self, **_: Any) -> Any:
            return nullcontext()

        def _gradient_sync_context(self, **_: Any) -> Any:
            return nullcontext()

        def optimizer_zero_grad(self) -> None:
            self.optimizer.zero_grad()

        def optimizer_step(self) -> float:
            return float(self.optimizer.step())

        def lr_scheduler_step(self) -> float:
            return 0.1

        def forward_backward_batch(self, data: Any, loss_function: Any, forward_only: bool = False) -> Any:
            return FSDPEngine.forward_backward_batch(self, data, loss_function, forward_only)

        def forward_step(self, micro_batch: Any, loss_function: Any, forward_only: bool) -> Any:
            tokens = micro_batch["input_ids"]
            flat = tokens.values()
            following = flat.roll(-1)
            log_probs = self.module(flat, micro_batch["position_ids"].values(), following)
            nested = torch.nested.nested_tensor_from_jagged(log_probs, tokens.offsets())
            loss, metrics = loss_function(
                model_output={"log_probs": nested}, data=micro_batch, dp_group=self.get_data_parallel_group()
            )
            return loss, {
                "model_output": {"log_probs": nested.detach()},
                "loss": float(loss),
                "metrics": metrics,
            }

    worker = object.__new__(TrainingWorker)
    worker.engine = Engine()
    worker.engine_config = types.SimpleNamespace(
        **{
            "forward_only": False,
            "use_dynamic_bsz": True,
            "max_token_len_per_gpu": 20,
            "micro_batch_size_per_gpu": None,
            "use_fused_kernels": False,
            **settings,
        }
    )
    worker.model_config = types.SimpleNamespace(use_remove_padding=True, get=lambda name, default=None: True)
    worker.device_name = "cpu"
    worker.flops_counter = mock.Mock()
    worker.flops_counter.estimate_flops.return_value = (1.0, 1.0)
    worker.profiler = mock.MagicMock(rank=0)
    worker.profiler.check_enable.return_value = False
    worker.set_loss_fn(partial(ppo_loss, config=config))
    return worker


def engine_update(worker: Any, batch: dict[str, torch.Tensor], mini_batch_size: int, **settings: Any) -> Any:
    """One update by verl's worker as its trainer asks for it; the metrics."""
    from tensordict import TensorDict
    from verl.utils import tensordict_utils as tu
    from verl.workers.utils.padding import left_right_2_no_padding

    data = TensorDict(
        {key: value.clone() for key, value in batch.items()}, batch_size=len(batch["input_ids"])
    )
    with mock.patch("verl.workers.utils.padding.unpad_input", unpad):
        data = left_right_2_no_padding(data)
    tu.assign_non_tensor(
        data,
        **{
            "calculate_entropy": False,
            "global_batch_size": mini_batch_size,
            "mini_batch_size": mini_batch_size,
            "epochs": 1,
            "seed": 1,
            "dataloader_kwargs": {"shuffle": False},
            "compute_loss": True,
            "temperature": 1.0,
            **settings,
        },
    )
    with on_the_cpu():
        return tu.get(worker.train_mini_batch(data), "metrics")


def unpad(values: torch.Tensor, mask: torch.Tensor) -> tuple[Any, ...]:
    """``flash_attn.bert_padding.unpad_input`` without flash-attn."""
    indices = mask.flatten().nonzero().flatten()
    lengths = mask.sum(dim=1)
    offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    return values.flatten(0, 1)[indices], indices, offsets, int(lengths.max())


@contextmanager
def on_the_cpu() -> Any:
    """Has verl take the processor for its accelerator."""
    module = mock.MagicMock()
    module.max_memory_allocated.return_value = module.max_memory_reserved.return_value = 0
    module.memory_allocated.return_value = module.memory_reserved.return_value = 0
    module.mem_get_info.return_value = (0, 0)
    with ExitStack() as stack:
        for name in (
            "verl.workers.engine_workers",
            "verl.workers.engine.fsdp.transformer_impl",
            "verl.utils.seqlen_balancing",
            "verl.workers.actor.dp_actor",
            "verl.utils.profiler.performance",
        ):
            for function, answer in {
                "get_torch_device": module,
                "get_device_name": "cpu",
                "get_device_id": "cpu",
            }.items():
                if hasattr(sys.modules.get(name), function):
                    stack.enter_context(mock.patch(f"{name}.{function}", lambda answer=answer: answer))
        yield


def legacy_actor(config: Any, **settings: Any) -> Any:
    """verl's ``DataParallelPPOActor`` with a model of a few weights."""
    from verl.workers.actor.dp_actor import DataParallelPPOActor

    module = Policy()
    optimizer = Recorded(module)

    class Actor(DataParallelPPOActor):
        def __init__(self) -> None:
            pass

        def _forward_micro_batch(
            self, micro_batch: Any, temperature: float, calculate_entropy: bool, **_: Any
        ) -> Any:
            tokens = micro_batch["input_ids"]
            log_probs = module(tokens, micro_batch["position_ids"], tokens.roll(-1, dims=1))
            log_probs = log_probs[:, PROMPT - 1 : -1]
            return {"log_probs": log_probs} if release >= "0.7.1" else (None, log_probs)

        def _optimizer_step(self) -> torch.Tensor:
            return optimizer.step()

    release = verl_release() or ""
    actor = Actor()
    vars(actor).update(
        config=config,
        actor_module=module,
        actor_optimizer=optimizer,
        ulysses_sequence_parallel_size=1,
        use_prefix_grouper=False,
        scaler=None,
    )
    vars(config).update(
        {
            "use_dynamic_bsz": True,
            "ppo_max_token_len_per_gpu": 20,
            "ppo_micro_batch_size_per_gpu": 2,
            "ppo_epochs": 1,
            **settings,
        }
    )
    return actor


def legacy_update(actor: Any, batch: dict[str, torch.Tensor]) -> tuple[dict[str, Any], dict[str, Any]]:
    """One update by verl's legacy actor; its metrics and the batch's facts after it."""
    from verl import DataProto

    everyone: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(everyone, batch["attention_mask"].sum(dim=1).tolist())
    lengths = [length for part in everyone for length in part]
    data = DataProto.from_dict(
        {key: value.clone() for key, value in batch.items()},
        meta_info={"temperature": 1.0, "global_token_num": lengths},
    )
    with on_the_cpu():
        metrics = actor.update_policy(data)
    return metrics, data.meta_info
