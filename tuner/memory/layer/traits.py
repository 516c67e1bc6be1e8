"""What decides a layer's activations and is not a dimension: how transformers computes an architecture.

Keyed by ``model_type``. An architecture that is not listed computes as Llama does. The tests count
every listed one tensor by tensor in transformers' own implementation.
"""

from msgspec import Struct
from msgspec.structs import replace


class LayerTraits(Struct, frozen=True, kw_only=True):
    """How one architecture computes its layers."""

    norms_before: bool = True  # each block works on a normalised copy of the residual stream
    norms_after: bool = False  # each block's output is normalised before it is added
    float32_norms: bool = False  # the norm's weight multiplies in float32
    merged_heads: bool = False  # one matrix for queries, keys and values
    merged_gate_up: bool = False  # one matrix for gate and up
    rotary_tables: int = 1  # pairs of tables, one for each kind of layer
    float32_rotary: bool = False  # tables are float32
    interleaved_rotary: bool = False  # tables of each layer repeat every entry, for half of a head
    copied_heads: bool = False  # rotated heads are laid out anew for the attention kernel
    norms_heads_last: bool = False  # heads are normalised once queries, keys and values all exist
    float32_routing: bool = False  # the experts' outputs are weighted in float32
    sigmoid_router: bool = False  # scores by sigmoid in the compute dtype, else by softmax in float32
    scores_of_chosen: bool = False  # softmax over the chosen experts alone
    router_copies_input: bool = False  # the router's input goes to float32 and back
    shared_first: bool = False  # the shared expert runs before the routed ones
    drops_out: bool = False  # dropout behind each block; its masks are not counted
    fused_experts: bool = True  # Liger has kernels for its experts
    expert_activations: int = 2  # beside gate and up, of an expert's width: activation and product


_DEFAULT = LayerTraits()
_GEMMA = LayerTraits(float32_norms=True)
_GEMMA_2 = LayerTraits(float32_norms=True, norms_after=True)
_GEMMA_3 = LayerTraits(float32_norms=True, norms_after=True, rotary_tables=2)
_OLMO = LayerTraits(float32_norms=True, norms_before=False, norms_after=True)
_GLM_4 = LayerTraits(norms_after=True, merged_gate_up=True, interleaved_rotary=True, copied_heads=True)
_DEEPSEEK_V3 = LayerTraits(sigmoid_router=True, router_copies_input=True, copied_heads=True)
_GATED_DELTA = LayerTraits(float32_norms=True, shared_first=True, copied_heads=True)

_BY_ARCHITECTURE = {
    "deepseek_v2": LayerTraits(float32_routing=True, router_copies_input=True),
    "deepseek_v3": _DEEPSEEK_V3,
    "gemma": _GEMMA,
    "gemma2": _GEMMA_2,
    "gemma3": _GEMMA_3,
    "gemma3_text": _GEMMA_3,
    "glm4": _GLM_4,
    "glm4_moe": LayerTraits(
        sigmoid_router=True,
        router_copies_input=True,
        copied_heads=True,
        norms_heads_last=True,
        fused_experts=False,
    ),
    "glm4v": _GLM_4,
    "gpt_oss": LayerTraits(
        float32_norms=True,
        copied_heads=True,
        scores_of_chosen=True,
        fused_experts=False,
        expert_activations=5,
    ),
    "kimi_k2": replace(_DEEPSEEK_V3, fused_experts=False),
    "mixtral": LayerTraits(float32_routing=True),
    "olmo2": replace(_OLMO, float32_rotary=True),
    "olmo3": _OLMO,
    "phi3": LayerTraits(merged_heads=True, merged_gate_up=True, copied_heads=True),
    "qwen2_moe": LayerTraits(shared_first=True, fused_experts=False),
    "qwen3_5": _GATED_DELTA,
    "qwen3_5_moe": _GATED_DELTA,
    "qwen3_5_moe_text": _GATED_DELTA,
    "qwen3_5_text": _GATED_DELTA,
    "qwen3_next": _GATED_DELTA,
    "seed_oss": LayerTraits(drops_out=True),
}


def layer_traits(architecture: str) -> LayerTraits:
    """The traits of a ``model_type``; Llama's for one that is not listed."""
    return _BY_ARCHITECTURE.get(architecture, _DEFAULT)
