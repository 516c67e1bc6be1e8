"""Layers of Megatron-Core with Transformer Engine's modules, and of transformers, that can be run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812

Run = Callable[[], torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class Dimensions:
    """Layers so small that arithmetic takes no time that counts, over two packed sequences."""

    layers: int = 4
    hidden: int = 32
    heads: int = 2
    kv_heads: int = 2
    intermediate: int = 32
    tokens: int = 8

    @property
    def head_dim(self) -> int:
        """Width of one head."""
        return self.hidden // self.heads


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What may be told of a layer."""

    query_key_norms: bool = False
    recomputes: bool = False
    fused_activation: bool = True
    fused_rotary: bool = True


def start_group(port: int) -> None:
    """A process group of one rank, and Megatron-Core's state of it."""
    from megatron.core import parallel_state
    from megatron.core.tensor_parallel import model_parallel_cuda_manual_seed

    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=1)
    parallel_state.initialize_model_parallel(1, 1)
    model_parallel_cuda_manual_seed(0)


def transformers_layers(sizes: Dimensions, choices: Choices) -> Run:
    """Layers of Qwen2, or of Qwen3, which have norms of queries and keys."""
    from torch.utils.checkpoint import checkpoint
    from transformers import Qwen2Config, Qwen3Config
    from transformers.models.qwen2 import modeling_qwen2
    from transformers.models.qwen3 import modeling_qwen3

    config_class: Any = Qwen3Config if choices.query_key_norms else Qwen2Config
    module: Any = modeling_qwen3 if choices.query_key_norms else modeling_qwen2
    kind = "Qwen3" if choices.query_key_norms else "Qwen2"
    config = config_class(
        hidden_size=sizes.hidden,
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.kv_heads,
        intermediate_size=sizes.intermediate,
        num_hidden_layers=sizes.layers,
        vocab_size=64,
        attn_implementation="sdpa",
        **({"head_dim": sizes.head_dim} if choices.query_key_norms else {}),
    )
    config._attn_implementation = "sdpa"
    made = [getattr(module, f"{kind}DecoderLayer")(config, index) for index in range(sizes.layers)]
    layers = torch.nn.ModuleList(made).to(torch.bfloat16)
    states = torch.randn(1, sizes.tokens, sizes.hidden, dtype=torch.bfloat16, requires_grad=True)
    positions = torch.arange(sizes.tokens)[None]
    tables = getattr(module, f"{kind}RotaryEmbedding")(config)(states, positions)

    def one(layer: Any, hidden: torch.Tensor) -> Any:
        output = layer(hidden, attention_mask=None, position_ids=positions, position_embeddings=tables)
        return output[0] if isinstance(output, tuple) else output

    def run() -> torch.Tensor:
        hidden: Any = states
        for layer in layers:
            recomputed = choices.recomputes
            hidden = checkpoint(one, layer, hidden, use_reentrant=False) if recomputed else one(layer, hidden)
        return hidden  # type: ignore[no-any-return]

    return run


def megatron_layers(sizes: Dimensions, choices: Choices) -> tuple[Run, frozenset[int]]:
    """A block of Megatron-Core over packed sequences, with Transformer Engine's modules.

    Returns:
        its forward pass, and the addresses of its parameters' storages.
    """
    from megatron.core.models.common.embeddings.rotary_pos_embedding import RotaryEmbedding
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_with_transformer_engine_spec
    from megatron.core.packed_seq_params import PackedSeqParams
    from megatron.core.transformer.transformer_block import TransformerBlock

    spec = get_gpt_layer_with_transformer_engine_spec(qk_layernorm=choices.query_key_norms)
    block = TransformerBlock(_config(sizes, choices), spec, pre_process=True, post_process=False).train()
    for parameter in block.parameters():
        parameter.main_grad = None
    states = torch.randn(sizes.tokens, 1, sizes.hidden, dtype=torch.bfloat16, requires_grad=True)
    frequencies = RotaryEmbedding(sizes.head_dim, 1.0, use_cpu_initialization=True)(sizes.tokens)
    half = sizes.tokens // 2
    begins = torch.tensor([0, half, sizes.tokens], dtype=torch.int32)
    packed = PackedSeqParams(
        qkv_format="thd",
        cu_seqlens_q=begins,
        cu_seqlens_kv=begins,
        max_seqlen_q=half,
        max_seqlen_kv=half,
        cu_seqlens_q_padded=begins,
        cu_seqlens_kv_padded=begins,
    )

    def run() -> torch.Tensor:
        for parameter in block.parameters():
            parameter.grad = None
        return block(  # type: ignore[no-any-return]
            hidden_states=states, attention_mask=None, rotary_pos_emb=frequencies, packed_seq_params=packed
        )

    storages = (parameter.untyped_storage().data_ptr() for parameter in block.parameters())
    return run, frozenset(storages)


def _config(sizes: Dimensions, choices: Choices) -> Any:
    from megatron.core.transformer.transformer_config import TransformerConfig

    full = {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1}
    return TransformerConfig(
        num_layers=sizes.layers,
        hidden_size=sizes.hidden,
        num_attention_heads=sizes.heads,
        num_query_groups=sizes.kv_heads,
        ffn_hidden_size=sizes.intermediate,
        kv_channels=sizes.head_dim,
        attention_dropout=0.0,
        hidden_dropout=0.0,
        add_bias_linear=False,
        add_qkv_bias=not choices.query_key_norms,
        activation_func=F.silu,
        normalization="RMSNorm",
        gated_linear_unit=True,
        qk_layernorm=choices.query_key_norms,
        params_dtype=torch.bfloat16,
        bf16=True,
        pipeline_dtype=torch.bfloat16,
        moe_token_dispatcher_type="alltoall",
        variable_seq_lengths=True,
        masked_softmax_fusion=True,
        bias_activation_fusion=choices.fused_activation,
        bias_dropout_fusion=True,
        apply_rope_fusion=choices.fused_rotary,
        gradient_accumulation_fusion=False,
        persist_layer_norm=True,
        use_cpu_initialization=True,
        **(full if choices.recomputes else {}),
    )


def single_modules(sizes: Dimensions, repeated: int) -> dict[str, Run]:
    """A product and a norm of Transformer Engine, beside torch's product, each so many times in a row."""
    import transformer_engine.pytorch as te

    hidden = sizes.hidden
    modules = {
        "torch.Linear": torch.nn.Linear(hidden, hidden, bias=False),
        "te.Linear": te.Linear(hidden, hidden, bias=False, device="cpu"),
        "te.LayerNormLinear": te.LayerNormLinear(
            hidden, hidden, bias=False, normalization="RMSNorm", device="cpu"
        ),
        "te.RMSNorm": te.RMSNorm(hidden, device="cpu"),
    }
    states = torch.randn(sizes.tokens, hidden, dtype=torch.bfloat16, requires_grad=True)
    return {name: _in_a_row(module.to(torch.bfloat16), states, repeated) for name, module in modules.items()}


def _in_a_row(module: Any, states: torch.Tensor, repeated: int) -> Run:
    def run() -> torch.Tensor:
        hidden: Any = states
        for _ in range(repeated):
            hidden = module(hidden)
        return hidden  # type: ignore[no-any-return]

    return run
