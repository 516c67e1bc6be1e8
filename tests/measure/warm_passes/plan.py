"""Which engines are built and which passes run on each of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from tuner.accuracy import MeasuredCase, workload_of
from tuner.model_shape import ModelShape
from tuner.models import find_config, shape_from_config
from tuner.models.shape import cut_config
from tuner.validate.training.settings import ModelSettings, PassSettings

_TINY = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 128,
    "vocab_size": 512,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
}


@dataclass(frozen=True, kw_only=True)
class EnginePlan:
    """One engine over a model's first layers, and the sizes of its passes."""

    model: str
    layers: int
    sizes: tuple[tuple[int, int], ...]  # tokens of a micro-batch, tokens of a sequence
    strategy: str = "fsdp2"
    dtype: str = "float32"
    uncheckpointed: int = 8192  # tokens up to which updates that keep their activations run too
    forward_prefetch: bool = False
    ulysses: int = 1  # ranks that share a sequence
    attention: str | None = None  # of transformers; none: flash attention within sequences

    @property
    def name(self) -> str:
        """A short name."""
        extra = "-prefetch" * self.forward_prefetch + f"-ulysses-{self.ulysses}" * (self.ulysses > 1)
        return f"{self.model}-{self.layers}-layers-{self.strategy}-{self.dtype}{extra}"

    def config(self, *, tiny: bool) -> dict[str, Any]:
        """The ``config.json`` of the cut model."""
        values = dict(cut_config(find_config(self.model).values, self.layers))
        if not tiny:
            return values
        small = {key: size for key, size in _TINY.items() if values.get(key) is not None}
        return cut_config(values, 2) | small

    def passes(self, *, ranks: int, tiny: bool) -> Iterator[dict[str, Any]]:
        """Settings of each pass over so many GPUs, in the form of a recorded one."""
        for tokens, length in self.sizes:
            tokens, length = (tokens // 64, length // 64) if tiny else (tokens, length)
            shared = {
                "model": self.model,
                "strategy": self.strategy,
                "world_size": ranks,
                "model_dtype": self.dtype,
                "tokens": tokens,
                "sequence_length": length,
                "temperature": 1.0,
                "reshard_after_forward": True,
                "use_torch_compile": True,
                "forward_prefetch": self.forward_prefetch,
                "ulysses": self.ulysses,
            }
            yield shared | {"pass": "log_prob", "gradient_checkpointing": True, "calculate_entropy": True}
            yield shared | {"pass": "update", "gradient_checkpointing": True, "calculate_entropy": False}
            if tokens <= self.uncheckpointed:
                yield shared | {"pass": "update", "gradient_checkpointing": False, "calculate_entropy": False}


_SHORT = ((2048, 1024), (8192, 1024), (32768, 1024), (16384, 8192))
ENGINES = (
    EnginePlan(model="Qwen2.5-1.5B", layers=28, sizes=_SHORT),
    EnginePlan(model="Qwen2.5-0.5B", layers=24, sizes=_SHORT),
    EnginePlan(model="Qwen2.5-1.5B", layers=28, strategy="fsdp", sizes=_SHORT),
    EnginePlan(model="Qwen3-4B", layers=12, sizes=((2048, 1024), (8192, 2048), (16384, 2048))),
    EnginePlan(model="Qwen2.5-7B", layers=7, sizes=((2048, 1024), (8192, 2048), (16384, 4096))),
    EnginePlan(model="Qwen3-30B-A3B", layers=2, sizes=((2048, 1024), (8192, 2048), (16384, 2048))),
    EnginePlan(model="Qwen2.5-0.5B", layers=24, strategy="fsdp", sizes=((2048, 1024), (16384, 1024))),
    EnginePlan(
        model="Llama-3.1-8B",
        layers=8,
        dtype="bfloat16",
        sizes=((4096, 2048), (16384, 4096)),
        uncheckpointed=0,
    ),
)
_TWO_SIZES = ((2048, 1024), (8192, 1024), (24576, 2048))
_HOST_BOUND = ((2048, 1024), (8192, 1024), (32768, 1024))
#: Engines whose states two GPUs share, the most telling first.
SHARED = (
    EnginePlan(model="Qwen2.5-0.5B", layers=24, strategy="fsdp", sizes=_HOST_BOUND),
    EnginePlan(model="Qwen3-30B-A3B", layers=4, sizes=((4096, 1024), (16384, 2048))),
    EnginePlan(model="Qwen2.5-0.5B", layers=24, sizes=_HOST_BOUND),
    EnginePlan(model="Qwen3-4B", layers=18, sizes=((2048, 1024), (8192, 2048), (16384, 2048))),
    EnginePlan(model="Qwen2.5-1.5B", layers=28, ulysses=2, sizes=((4096, 4096), (16384, 16384))),
    EnginePlan(model="Qwen2.5-1.5B", layers=28, forward_prefetch=True, sizes=((2048, 1024), (8192, 1024))),
    EnginePlan(model="Qwen2.5-7B", layers=12, strategy="fsdp", sizes=((2048, 1024), (8192, 2048))),
    EnginePlan(model="Qwen2.5-1.5B", layers=28, sizes=_TWO_SIZES),
    EnginePlan(model="Qwen2.5-1.5B", layers=28, strategy="fsdp", sizes=_TWO_SIZES),
    EnginePlan(model="Qwen3-4B", layers=18, strategy="fsdp", sizes=((2048, 1024), (8192, 2048))),
    EnginePlan(model="Qwen2.5-7B", layers=12, sizes=((2048, 1024), (8192, 2048), (16384, 4096))),
)


def model_settings(config: dict[str, Any]) -> ModelSettings:
    """What the engine builds its model from."""
    return ModelSettings(config=config)


def shape(plan: EnginePlan, *, tiny: bool) -> ModelShape:
    """The dimensions of the cut model."""
    return shape_from_config(plan.config(tiny=tiny), name=plan.name, source=plan.name)


def pass_settings(values: dict[str, Any], model: ModelShape) -> PassSettings:
    """What a recorded pass is for the engine that runs it."""
    case = MeasuredCase.model_validate(values | {"allocated_before_bytes": 0, "peak_allocated_bytes": 1})
    actor = workload_of(case, model).actor
    return PassSettings(
        engine=structs.replace(actor.engine),
        head=actor.head,
        training=case.pass_ == "update",
        entropy=case.calculate_entropy,
        tokens=case.tokens,
        sequence_length=case.sequence_length,
        micro_batches=case.micro_batches,
        temperature=case.temperature,
    )
