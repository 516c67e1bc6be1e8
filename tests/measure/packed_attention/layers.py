"""Decoder layers over one packed row: their sizes, the model that has them, and the row."""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from measure.readings import device

SEQUENCES = 8  # of a row, all of one length
_FLASH = "flash"


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Dimensions of a decoder layer."""

    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    intermediate: int


#: Qwen2.5-7B's, and Llama-3.1-8B's.
SIZES = (
    Sizes(heads=28, kv_heads=4, head_dim=128, hidden=3584, intermediate=18944),
    Sizes(heads=32, kv_heads=8, head_dim=128, hidden=4096, intermediate=14336),
)
TINY = Sizes(heads=4, kv_heads=2, head_dim=16, hidden=64, intermediate=128)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One packed row, and the layers that read it."""

    attention: str
    tokens: int
    layers: int
    sizes: Sizes
    cudnn: bool = True  # may PyTorch choose its kernel
    sliding_window: int = 131072  # of the configuration, which does not use it; as Qwen2.5-7B has it

    def told(self) -> dict[str, Any]:
        """As a record has it."""
        sizes = self.sizes
        return {
            "attention": self.attention,
            "heads": sizes.heads,
            "kv_heads": sizes.kv_heads,
            "head_dim": sizes.head_dim,
            "hidden": sizes.hidden,
            "tokens": self.tokens,
            "layers": self.layers,
            "cudnn": self.cudnn,
            "sliding_window": self.sliding_window,
        }

    @property
    def positions(self) -> torch.Tensor:
        """Those of every token within its sequence."""
        return torch.arange(self.tokens // SEQUENCES, device=device()).repeat(SEQUENCES)[None]

    def states(self) -> torch.Tensor:
        """Random states in the place of embedded tokens."""
        shape = (1, self.tokens, self.sizes.hidden)
        return torch.randn(shape, device=device(), dtype=torch.bfloat16, requires_grad=True)

    def within_sequences(self) -> Any:
        """Where flash attention is told the bounds of sequences; nothing for other attention."""
        if self.attention != _FLASH:
            return nullcontext()
        from tuner.validate.training.worker.attention import packed

        return packed([self.tokens // SEQUENCES] * SEQUENCES, device())


def build(row: Row) -> torch.nn.Module:
    """Transformers' own layers with the attention that the row asks for."""
    from transformers import Qwen2Config
    from transformers.models.qwen2.modeling_qwen2 import Qwen2Model

    sizes, name = row.sizes, row.attention
    if name == _FLASH:
        from tuner.validate.training.worker import attention

        attention.register()
        name = attention.NAME
    config = Qwen2Config(
        hidden_size=sizes.hidden,
        intermediate_size=sizes.intermediate,
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.kv_heads,
        num_hidden_layers=row.layers,
        vocab_size=128,
        max_position_embeddings=row.tokens,
        sliding_window=row.sliding_window,
        use_cache=False,
    )
    config._attn_implementation = name
    torch.manual_seed(1)
    with torch.device(device()):
        model: torch.nn.Module = Qwen2Model(config)
    return model.to(torch.bfloat16).train()
