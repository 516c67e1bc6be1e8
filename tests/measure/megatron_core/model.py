"""A GPT model of Megatron-Core's own modules, without Transformer Engine."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from measure.readings import device


@dataclass(frozen=True, kw_only=True)
class Dimensions:
    """The dimensions of Qwen2.5-1.5B."""

    hidden: int = 1536
    layers: int = 28
    heads: int = 12
    kv_heads: int = 2
    intermediate: int = 8960
    vocabulary: int = 151936


class FlashAttention(torch.nn.Module):
    """Causal attention in the place of Megatron's core attention, with what flash attention keeps."""

    def __init__(self, config: Any, **_: Any) -> None:
        super().__init__()
        self.scale = config.kv_channels**-0.5

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any, **__: Any) -> Any:
        """From [tokens, sequences, heads, width] to [tokens, sequences, heads x width]."""
        states = [part.transpose(0, 1) for part in (query, key, value)]
        if query.is_cuda:
            length = query.shape[0]
            attended = torch.ops.aten._flash_attention_forward(
                *states, None, None, length, length, 0.0, True, False, scale=self.scale
            )[0]
        else:
            heads_first = [part.transpose(1, 2) for part in states]
            attended = F.scaled_dot_product_attention(*heads_first, is_causal=True, enable_gqa=True)
            attended = attended.transpose(1, 2)
        return attended.transpose(0, 1).flatten(2)


class Norm(torch.nn.RMSNorm):
    """PyTorch's RMSNorm; Megatron's wrapper of it refuses sequence parallelism."""

    def __init__(self, config: Any, hidden_size: int, eps: float = 1e-6, **_: Any) -> None:
        super().__init__(hidden_size, eps=eps, device=device(), dtype=config.params_dtype)
        self.weight.sequence_parallel = config.sequence_parallel


def build_model(dimensions: Dimensions, *, tensor: int, pipeline: int, recompute: str | None) -> Any:
    """The part of the model that this rank holds."""
    from megatron.core import parallel_state
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer import TransformerConfig
    from megatron.core.transformer.transformer_block import TransformerBlockSubmodules

    full = recompute == "full"
    config = TransformerConfig(
        num_layers=dimensions.layers,
        hidden_size=dimensions.hidden,
        num_attention_heads=dimensions.heads,
        num_query_groups=dimensions.kv_heads,
        ffn_hidden_size=dimensions.intermediate,
        tensor_model_parallel_size=tensor,
        pipeline_model_parallel_size=pipeline,
        sequence_parallel=tensor > 1,
        bf16=True,
        params_dtype=torch.bfloat16,
        pipeline_dtype=torch.bfloat16,
        normalization="RMSNorm",
        gated_linear_unit=True,
        activation_func=F.silu,
        add_bias_linear=False,
        add_qkv_bias=True,
        attention_dropout=0.0,
        hidden_dropout=0.0,
        bias_activation_fusion=torch.cuda.is_available(),
        bias_dropout_fusion=False,
        masked_softmax_fusion=False,
        gradient_accumulation_fusion=False,
        persist_layer_norm=False,
        recompute_granularity=recompute,
        recompute_method="uniform" if full else None,
        recompute_num_layers=1 if full else None,
        use_cpu_initialization=not torch.cuda.is_available(),
    )
    layer = get_gpt_layer_local_spec(normalization="RMSNorm")
    layer.submodules.input_layernorm = Norm
    layer.submodules.pre_mlp_layernorm = Norm
    layer.submodules.self_attention.submodules.core_attention = FlashAttention
    return GPTModel(
        config,
        TransformerBlockSubmodules(layer_specs=[layer] * (dimensions.layers // pipeline), layer_norm=Norm),
        vocab_size=dimensions.vocabulary,
        max_sequence_length=32768,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        share_embeddings_and_output_weights=True,
        position_embedding_type="rope",
        rotary_base=1000000,
    ).to(device())
