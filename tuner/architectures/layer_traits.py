"""What decides a layer's activations and is not a dimension: how transformers computes an architecture.

The defaults are Llama's. The tests count every architecture that can be read tensor by tensor in
transformers' own implementation.
"""

from msgspec import Struct


class LayerTraits(Struct, frozen=True, kw_only=True):
    """How one architecture computes its layers."""

    norms_before: bool = True  # each block works on a normalised copy of the residual stream
    norms_after: bool = False  # each block's output is normalised before it is added
    float32_norms: bool = False  # the norm's weight multiplies in float32
    norms_keep_input: bool = False  # LayerNorm in the compute dtype, which autocast does not reach
    squares_relu: bool = False  # an MLP without a gate squares its ReLU; else it writes GELU out
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
    fused_activation: bool = True  # Liger has a kernel for the activation of its MLP, beside those of norms
    expert_activations: int = 2  # beside gate and up, of an expert's width: activation and product
