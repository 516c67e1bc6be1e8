"""What the calculator asks for, and the overrides that say it to ``tuner advise``."""

from collections.abc import Mapping
from functools import cache

from msgspec import Struct

from tuner.gpus import gpu_names
from tuner.model_shape import ModelShape
from tuner.models import bundled, find_model

RELEASE = "0.9.1"
#: What every job of the calculator has.
COMMON = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.model.use_remove_padding=True",
    "actor_rollout_ref.actor.use_dynamic_bsz=True",
)


class Amount(Struct, frozen=True, kw_only=True):
    """A number that is asked for."""

    name: str
    low: int
    high: int
    start: int
    key: str  # that it is written to
    per: int = 1  # the key has the number divided by this


class Choice(Struct, frozen=True, kw_only=True):
    """Something that is chosen from a list, by name; each with the overrides that say it."""

    name: str
    options: Mapping[str, tuple[str, ...]]
    start: str


_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
_MODEL, _REFERENCE = "actor_rollout_ref.model", "actor_rollout_ref.ref"

AMOUNTS = (
    Amount(name="gpus", low=1, high=16, start=8, key="trainer.n_gpus_per_node"),
    Amount(name="nodes", low=1, high=64, start=1, key="trainer.nnodes"),
    Amount(name="prompts", low=1, high=8192, start=1024, key="data.train_batch_size"),
    Amount(name="mini_batch", low=1, high=8192, start=256, key=f"{_ACTOR}.ppo_mini_batch_size"),
    Amount(name="responses", low=1, high=128, start=5, key=f"{_ROLLOUT}.n"),
    Amount(name="prompt", low=1, high=2**17, start=1024, key="data.max_prompt_length"),
    Amount(name="response", low=1, high=2**18, start=4096, key="data.max_response_length"),
    Amount(name="budget", low=256, high=2**20, start=16384, key=f"{_ACTOR}.ppo_max_token_len_per_gpu"),
    Amount(name="fraction", low=5, high=95, start=60, key=f"{_ROLLOUT}.gpu_memory_utilization", per=100),
)


def _switch(name: str, key: str, *, start: str) -> Choice:
    return Choice(name=name, options={"off": (f"{key}=False",), "on": (f"{key}=True",)}, start=start)


def _fused(implementation: str) -> tuple[str, ...]:
    backend = f"{_MODEL}.fused_kernel_options.impl_backend={implementation}"
    return (f"{_MODEL}.use_fused_kernels=True", backend)


CHOICES = (
    Choice(
        name="strategy",
        options={name: (f"{_ACTOR}.strategy={name}",) for name in ("fsdp2", "fsdp")},
        start="fsdp2",
    ),
    Choice(
        name="head",
        options={
            "logits": (),
            "chunked": (f"{_ACTOR}.entropy_from_logits_with_chunking=True",),
            "fused_torch": _fused("torch"),
            "fused_triton": _fused("triton"),
        },
        start="logits",
    ),
    Choice(
        name="entropy",
        options={"off": (f"{_ACTOR}.entropy_coeff=0",), "on": (f"{_ACTOR}.entropy_coeff=0.001",)},
        start="off",
    ),
    _switch("checkpointing", f"{_MODEL}.enable_gradient_checkpointing", start="on"),
    _switch("param_offload", f"{_ACTOR}.fsdp_config.param_offload", start="off"),
    _switch("optimizer_offload", f"{_ACTOR}.fsdp_config.optimizer_offload", start="off"),
    Choice(
        name="reference",
        options={
            "none": (f"{_ACTOR}.use_kl_loss=False",),
            "kept": (f"{_ACTOR}.use_kl_loss=True", f"{_REFERENCE}.fsdp_config.param_offload=False"),
            "offloaded": (f"{_ACTOR}.use_kl_loss=True", f"{_REFERENCE}.fsdp_config.param_offload=True"),
        },
        start="none",
    ),
    Choice(
        name="tensor_parallel",
        options={str(size): (f"{_ROLLOUT}.tensor_model_parallel_size={size}",) for size in (1, 2, 4, 8)},
        start="2",
    ),
)
MODEL_KEY = f"{_MODEL}.path"
#: A model by its name, looked up once.
model_named = cache(find_model)
_START_MODEL, _START_CARD = "Qwen2.5-7B-Instruct", "h100-sxm"


@cache
def models() -> tuple[str, ...]:
    """The dense text models that are bundled."""
    return tuple(model.name for model in bundled() if _is_dense(model))


def _is_dense(model: ModelShape) -> bool:
    special = (model.moe, model.latent, model.linear, model.tower, model.traced)
    return all(part is None for part in special) and not model.extra_parameters


@cache
def shapes() -> dict[str, list[str]]:
    """The models by the first of those that have the same dimensions."""
    found: dict[tuple[object, ...], list[str]] = {}
    for name in models():
        model = model_named(name)
        told = tuple(
            getattr(model, field) for field in model.__struct_fields__ if field not in ("name", "source")
        )
        found.setdefault(told, []).append(name)
    return {names[0]: names for names in found.values()}


@cache
def cards() -> tuple[str, ...]:
    """The cards that are bundled."""
    return gpu_names()


Answers = Mapping[str, int | str]
"""What the form says: a number or the name of an option by the name of the field."""


def start() -> dict[str, int | str]:
    """What the form says when the page opens."""
    fields = {field.name: field.start for field in (*AMOUNTS, *CHOICES)}
    return {"model": _START_MODEL, "card": _START_CARD, **fields}


def overrides(answers: Answers) -> list[str]:
    """What ``tuner advise`` is given for these answers."""
    said = [f"{MODEL_KEY}={answers['model']}", *COMMON]
    for amount in AMOUNTS:
        number = answers[amount.name]
        said.append(f"{amount.key}={number if amount.per == 1 else int(number) / amount.per}")
    for choice in CHOICES:
        said += choice.options[str(answers[choice.name])]
    return said
