"""What the GPU does in one decoding step of an inference engine, put together from its largest kernels.

N: sequences. C: tokens that each sequence sees. D: head size.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

BLOCK_TOKENS = 16
MOST_SPLITS = (
    32  # of vLLM's attention in a CUDA graph: attention_config.flash_attn_max_num_splits_for_cuda_graph
)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Of a dense decoder."""

    layers: int
    hidden: int
    heads: int
    key_heads: int
    head: int
    intermediate: int
    vocabulary: int

    @classmethod
    def of(cls, config: dict[str, Any], *, layers: int | None = None) -> "Sizes":
        """Read from a model's configuration; fewer layers where they are given."""
        heads = int(config["num_attention_heads"])
        return cls(
            layers=layers or int(config["num_hidden_layers"]),
            hidden=int(config["hidden_size"]),
            heads=heads,
            key_heads=int(config["num_key_value_heads"]),
            head=int(config.get("head_dim") or config["hidden_size"] // heads),
            intermediate=int(config["intermediate_size"]),
            vocabulary=int(config["vocab_size"]),
        )


class Step:
    """The weights, the cache and the parts of a step."""

    def __init__(self, sizes: Sizes, lengths: list[int], device: str) -> None:
        self.sizes, self.lengths, self.device = sizes, lengths, device
        count, pages = len(lengths), [-(-length // BLOCK_TOKENS) for length in lengths]
        projected = (sizes.heads + 2 * sizes.key_heads) * sizes.head
        shapes = {
            "qkv": (projected, sizes.hidden),
            "output": (sizes.hidden, sizes.heads * sizes.head),
            "gate_up": (2 * sizes.intermediate, sizes.hidden),
            "down": (sizes.hidden, sizes.intermediate),
        }
        self.weights = [
            {name: self._random(*shape) for name, shape in shapes.items()} for _ in range(sizes.layers)
        ]
        self.norm, self.vocabulary_weight = (
            self._random(sizes.hidden),
            self._random(sizes.vocabulary, sizes.hidden),
        )
        self.cache = [
            self._random(2, sum(pages), BLOCK_TOKENS, sizes.key_heads, sizes.head)
            for _ in range(sizes.layers)
        ]
        order = torch.randperm(sum(pages), device=device).int()  # pages of a running engine lie anywhere
        self.table = torch.nn.utils.rnn.pad_sequence(list(order.split(pages)), batch_first=True)
        self.seen = torch.tensor(lengths, dtype=torch.int32, device=device)
        self.starts = torch.arange(count + 1, dtype=torch.int32, device=device)
        self.residual = self._random(count, sizes.hidden)

    def _random(self, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.bfloat16, device=self.device).normal_(std=0.02)

    def parts(self) -> dict[str, Callable[[], object]]:
        """Each part over all layers, and the step."""
        return {
            "attention": lambda: [self._attend(self._query(), layer) for layer in range(self.sizes.layers)],
            "products": lambda: [self._products(layer) for layer in range(self.sizes.layers)],
            "head": lambda: functional.linear(self.residual, self.vocabulary_weight),
            "sampling": lambda: sampled(functional.linear(self.residual, self.vocabulary_weight)),
            "step": self._step,
        }

    def _query(self) -> Tensor:
        count = len(self.lengths)
        return self.residual.new_zeros(count, self.sizes.heads, self.sizes.head)

    def _attend(self, query: Tensor, layer: int) -> Tensor:
        keys, values = self.cache[layer]
        if self.device == "cpu":
            return query
        from vllm.vllm_flash_attn import flash_attn_varlen_func

        found: Tensor = flash_attn_varlen_func(
            query, keys, values, 1, self.starts, max(self.lengths),
            seqused_k=self.seen, causal=True, block_table=self.table,
            scheduler_metadata=self.metadata, num_splits=MOST_SPLITS, fa_version=3,
        )  # fmt: skip
        return found

    def prepare(self) -> None:
        """What the engine prepares before each step, outside of its graph."""
        if self.device == "cpu":
            return
        from vllm.vllm_flash_attn import get_scheduler_metadata

        sizes = self.sizes
        self.metadata = get_scheduler_metadata(
            batch_size=len(self.lengths), max_seqlen_q=1, max_seqlen_k=max(self.lengths),
            num_heads_q=sizes.heads, num_heads_kv=sizes.key_heads, headdim=sizes.head,
            cache_seqlens=self.seen, qkv_dtype=torch.bfloat16, cu_seqlens_q=self.starts,
            page_size=BLOCK_TOKENS, causal=True, num_splits=MOST_SPLITS,
        )  # fmt: skip

    def _products(self, layer: int) -> None:
        weights, sizes = self.weights[layer], self.sizes
        functional.linear(self.residual, weights["qkv"])
        attended = self.residual.new_zeros(len(self.lengths), sizes.heads * sizes.head)
        functional.linear(attended, weights["output"])
        gated = functional.linear(self.residual, weights["gate_up"])
        functional.linear(gated[:, : sizes.intermediate].contiguous(), weights["down"])

    def _step(self) -> Tensor:
        residual, sizes = self.residual, self.sizes
        for layer, weights in enumerate(self.weights):
            normed = functional.rms_norm(residual, (sizes.hidden,), self.norm)
            mixed = functional.linear(normed, weights["qkv"])
            query = mixed[:, : sizes.heads * sizes.head].reshape(-1, sizes.heads, sizes.head)
            attended = self._attend(query.contiguous(), layer).reshape(len(self.lengths), -1)
            residual = residual + functional.linear(attended, weights["output"])
            normed = functional.rms_norm(residual, (sizes.hidden,), self.norm)
            gate, up = functional.linear(normed, weights["gate_up"]).chunk(2, dim=-1)
            residual = residual + functional.linear(functional.silu(gate) * up, weights["down"])
        return sampled(functional.linear(residual, self.vocabulary_weight))


def sampled(logits: Tensor) -> Tensor:
    """A token for each row, as vLLM draws it in PyTorch: ``random_sample`` of its sampler."""
    probabilities = logits.float().softmax(dim=-1, dtype=torch.float32)
    noise = torch.empty_like(probabilities).exponential_()
    return probabilities.div_(noise).argmax(dim=-1)
