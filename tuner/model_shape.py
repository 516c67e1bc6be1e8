"""Dimensions of a decoder-only language model, and the counts that follow from them."""

from functools import cached_property
from typing import Annotated

from msgspec import Struct

from tuner.enumeration import Enum
from tuner.field_marks import UNPUBLISHED
from tuner.sparse_indexer import SparseIndexer
from tuner.traced_layers import TracedModel
from tuner.vision_tower import VisionTower


class QueryKeyNorm(Enum):
    """Normalisation of queries and keys before attention."""

    NONE = "none"
    PER_HEAD = "per_head"  # one weight vector of head_dim each (Qwen3, Gemma 3)
    FULL = "full"  # one weight vector over all heads each (OLMo 2)


class LatentAttention(Struct, frozen=True, kw_only=True):
    """Multi-head latent attention (DeepSeek-V2/V3)."""

    q_lora_rank: int | None
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int


class LinearAttention(Struct, frozen=True, kw_only=True):
    """Attention whose state does not grow with the sequence: a gated delta rule (Qwen3-Next), or Mamba-2.

    Mamba-2's groups are its key heads, its states their width, and its heads the value heads.
    """

    key_heads: int
    value_heads: int
    key_head_dim: int
    value_head_dim: int
    conv_kernel: int
    layers: tuple[int, ...]  # indices of the layers that use it; the others attend in full
    scans: Annotated[bool, UNPUBLISHED] = False  # Mamba-2

    @property
    def key_width(self) -> int:
        """All key heads together; queries are as wide."""
        return self.key_heads * self.key_head_dim

    @property
    def value_width(self) -> int:
        """All value heads together."""
        return self.value_heads * self.value_head_dim

    @property
    def conv_width(self) -> int:
        """Channels of the short convolution: queries, keys and values."""
        return 2 * self.key_width + self.value_width


class MixtureOfExperts(Struct, frozen=True, kw_only=True):
    """Routed and shared experts of the sparse layers."""

    experts: int
    experts_per_token: int
    expert_intermediate: int
    shared_intermediate: int = 0  # summed width of the shared experts, 0 without them
    shared_gate: bool = False  # a sigmoid gate of hidden width on the shared expert (Qwen2-MoE)
    router_bias: int = 0  # extra parameters per router (gpt-oss); a bias kept as a buffer is not counted
    expert_bias: bool = False  # biases in the expert projections (gpt-oss)
    dense_layers: tuple[int, ...] = ()  # indices of the layers that keep a dense MLP
    latent_width: Annotated[int, UNPUBLISHED] = (
        0  # width that tokens are brought to for routed experts; 0: hidden
    )


class LogitCopies(Struct, frozen=True, kw_only=True):
    """Tensors as large as the logits that a model makes before it returns them: scaling, soft-capping."""

    saved: int = 0  # kept from the forward to the backward pass
    forward: int = 0  # most at once while they are made, beyond those that are returned
    backward: int = 0  # most at once in the backward pass, beyond what was saved and the gradient given


class ModelShape(Struct, frozen=True, kw_only=True, cache_hash=True, dict=True):
    """A decoder-only transformer. All sizes are element counts, not bytes.

    Parameters are counted as transformers creates them (``model.parameters()``), buffers excluded.
    """

    name: str
    architecture: str  # transformers' model_type
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int  # of queries and keys; qk_nope + qk_rope under latent attention
    intermediate: int  # width of the dense MLP
    vocab: int
    tied_embeddings: bool
    max_positions: int
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    head_bias: bool = False  # a bias in the output projection (Phi-2)
    value_head: bool = False  # one column with a bias in the output projection's place (a critic)
    gated_mlp: bool = True
    qk_norm: QueryKeyNorm = QueryKeyNorm.NONE
    norms_per_layer: int = 2
    norm_bias: bool = False  # LayerNorm with bias instead of RMSNorm
    attention_sinks: bool = False  # one learned logit per head (gpt-oss)
    attention_gate: bool = False  # the query projection also makes an output gate (Qwen3-Next)
    position_parameters: int = 0  # learned absolute position embeddings
    extra_parameters: int = 0  # beside the decoder: vision tower, multi-token-prediction modules
    tower: VisionTower | None = None  # whose parameters are among the extra ones; None without, or unknown
    moe: MixtureOfExperts | None = None
    latent: LatentAttention | None = None
    indexer: SparseIndexer | None = None  # under latent attention alone
    linear: LinearAttention | None = None
    sliding_window: int | None = None
    windowed_layers: int = 0  # layers whose attention is limited to the window
    idle_window: Annotated[int | None, UNPUBLISHED] = None  # that stands in the file, and limits no layer
    mixers_alone: Annotated[tuple[int, ...], UNPUBLISHED] = ()  # layers without an MLP (Nemotron-H)
    mlps_alone: Annotated[tuple[int, ...], UNPUBLISHED] = ()  # layers without attention of any kind
    logit_copies: LogitCopies = LogitCopies()
    traced: TracedModel | None = None  # counted parameters and activations, in place of the formulas
    source: str = ""
    contained_in: str = ""  # a longer name that this model was told by; how long its sequences may be is open

    # -- kinds of layers ----------------------------------------------------------------

    def is_sparse(self, layer: int) -> bool:
        """Whether a layer routes its tokens to experts."""
        return self.moe is not None and layer not in self.moe.dense_layers

    def is_linear(self, layer: int) -> bool:
        """Whether a layer keeps a state of fixed size instead of a KV cache."""
        return self.linear is not None and layer in self.linear.layers

    def has_mixer(self, layer: int) -> bool:
        """Whether a layer has attention, of whichever kind."""
        return layer not in self.mlps_alone

    def has_mlp(self, layer: int) -> bool:
        """Whether a layer has an MLP, of whichever kind."""
        return layer not in self.mixers_alone

    def kind(self, layer: int) -> tuple[bool, ...]:
        """What is equal of two layers that are alike."""
        return (
            self.is_linear(layer),
            self.is_sparse(layer),
            self.has_indexer(layer),
            self.has_mixer(layer),
            self.has_mlp(layer),
        )

    @property
    def routed_width(self) -> int:
        """Width of the copies of a token that travel to experts."""
        return self.hidden if self.moe is None or not self.moe.latent_width else self.moe.latent_width

    def has_indexer(self, layer: int) -> bool:
        """Whether a layer chooses itself which keys its queries attend to."""
        return self.indexer is not None and layer in self.indexer.layers

    @property
    def sparse_layers(self) -> int:
        """How many layers route to experts."""
        return 0 if self.moe is None else self.layers - len(self.moe.dense_layers)

    @property
    def cached_layers(self) -> int:
        """How many layers have a KV cache."""
        return self.layers - self.linear_layers - len(self.mlps_alone)

    @property
    def linear_layers(self) -> int:
        """How many layers keep a state of fixed size."""
        return 0 if self.linear is None else len(self.linear.layers)

    # -- parameter counts ---------------------------------------------------------------

    @cached_property
    def embedding_parameters(self) -> int:
        """Token embedding [vocab, hidden]."""
        if self.traced is not None:
            return self.traced.embedding_parameters
        return self.vocab * self.hidden

    @property
    def shares_embedding(self) -> bool:
        """Whether the output projection multiplies with the embedding's own weights."""
        return self.tied_embeddings and not self.value_head

    @property
    def projection_parameters(self) -> int:
        """What the output projection multiplies with, its own weights or the embedding's."""
        if self.value_head:
            return self.hidden + 1
        return self.vocab * self.hidden + (self.vocab if self.head_bias else 0)

    @cached_property
    def head_parameters(self) -> int:
        """Output projection [vocab, hidden] and its bias; no matrix when it shares the embedding."""
        if self.value_head:
            return self.projection_parameters
        if self.traced is not None:
            return self.traced.head_parameters
        matrix = 0 if self.tied_embeddings else self.vocab * self.hidden
        return matrix + (self.vocab if self.head_bias else 0)

    @cached_property
    def final_norm_parameters(self) -> int:
        """The norm before the head; of a traced model all that lies outside layers, embedding and head."""
        return self.norm_parameters if self.traced is None else self.traced.other_parameters

    @cached_property
    def norm_parameters(self) -> int:
        """One normalisation of hidden width."""
        return self.hidden * (2 if self.norm_bias else 1)

    @cached_property
    def attention_parameters(self) -> int:
        """Softmax attention block of one layer, with its biases and query/key norms."""
        if self.latent is not None:
            return self._latent_attention_parameters(self.latent)
        query = self.heads * self.head_dim
        key_value = self.kv_heads * self.head_dim
        query_out = 2 * query if self.attention_gate else query
        projections = self.hidden * (query_out + 2 * key_value + query)
        biases = (query_out + 2 * key_value if self.qkv_bias else 0) + (
            self.hidden if self.output_bias else 0
        )
        norms = {
            QueryKeyNorm.NONE: 0,
            QueryKeyNorm.PER_HEAD: 2 * self.head_dim,
            QueryKeyNorm.FULL: query + key_value,
        }[self.qk_norm]
        return projections + biases + norms + (self.heads if self.attention_sinks else 0)

    def _latent_attention_parameters(self, latent: LatentAttention) -> int:
        query = self.heads * (latent.qk_nope_head_dim + latent.qk_rope_head_dim)
        if latent.q_lora_rank is None:
            queries = self.hidden * query
        else:
            down_bias = latent.q_lora_rank if self.qkv_bias else 0
            queries = latent.q_lora_rank * (self.hidden + 1 + query) + down_bias
        compressed = latent.kv_lora_rank + latent.qk_rope_head_dim
        expanded = self.heads * (latent.qk_nope_head_dim + latent.v_head_dim)
        keys_values = self.hidden * compressed + latent.kv_lora_rank * (1 + expanded)
        output = self.heads * latent.v_head_dim * self.hidden
        biases = (compressed if self.qkv_bias else 0) + (self.hidden if self.output_bias else 0)
        return queries + keys_values + output + biases

    @cached_property
    def linear_attention_parameters(self) -> int:
        """Linear attention block of one layer, 0 in a model without."""
        linear = self.linear
        if linear is None:
            return 0
        inputs = self.hidden * (linear.conv_width + linear.value_width + 2 * linear.value_heads)
        convolution = linear.conv_width * linear.conv_kernel
        if linear.scans:  # one number for each head, biases of the convolution, and a norm of all heads
            inputs -= self.hidden * linear.value_heads
            own = linear.conv_width + 3 * linear.value_heads + linear.value_width
            return inputs + convolution + own + linear.value_width * self.hidden
        decay = 2 * linear.value_heads  # dt_bias and A_log
        return inputs + convolution + decay + linear.value_head_dim + linear.value_width * self.hidden

    def _mlp(self, intermediate: int, *, bias: bool, width: int | None = None) -> int:
        matrices = 3 if self.gated_mlp else 2
        biases = (matrices - 1) * intermediate + self.hidden if bias else 0
        return matrices * (width or self.hidden) * intermediate + biases

    @cached_property
    def one_expert_parameters(self) -> int:
        """One routed expert, 0 in a dense model."""
        if self.traced is not None and self.moe is not None:
            return self.expert_parameters // self.moe.experts
        if self.moe is None:
            return 0
        width, bias = self.routed_width, self.moe.expert_bias
        return self._mlp(self.moe.expert_intermediate, bias=bias, width=width)

    @cached_property
    def expert_parameters(self) -> int:
        """Routed experts of one sparse layer, 0 in a dense model; of a traced one the largest layer's."""
        if self.traced is not None:
            return max(kind.routed_parameters for kind in self.traced.kinds)
        return 0 if self.moe is None else self.moe.experts * self.one_expert_parameters

    @cached_property
    def shared_expert_parameters(self) -> int:
        """Shared experts of one sparse layer with their gate, and what brings tokens to a latent width."""
        if self.moe is None:
            return 0
        latent = 2 * self.hidden * self.moe.latent_width
        if not self.moe.shared_intermediate:
            return latent
        gate = self.hidden if self.moe.shared_gate else 0
        return self._mlp(self.moe.shared_intermediate, bias=False) + gate + latent

    @cached_property
    def router_parameters(self) -> int:
        """Router of one sparse layer, 0 in a dense model."""
        return 0 if self.moe is None else self.hidden * self.moe.experts + self.moe.router_bias

    def mlp_parameters(self, layer: int) -> int:
        """MLP of one layer; in a sparse one the router, all routed and the shared experts."""
        if self.is_sparse(layer):
            return self.router_parameters + self.expert_parameters + self.shared_expert_parameters
        if not self.has_mlp(layer):
            return 0
        return self._mlp(self.intermediate, bias=self.mlp_bias)

    def mixer_parameters(self, layer: int) -> int:
        """Attention of one layer, of whichever kind it is, with what chooses its keys."""
        if self.is_linear(layer):
            return self.linear_attention_parameters
        if not self.has_mixer(layer):
            return 0
        return self.attention_parameters + self.indexer_parameters(layer)

    def indexer_parameters(self, layer: int) -> int:
        """What chooses the keys of one layer's attention, 0 where nothing does."""
        if self.indexer is None or self.latent is None or not self.has_indexer(layer):
            return 0
        return self.indexer.parameters(self.hidden, self.latent.q_lora_rank or self.hidden)

    def layer_parameters(self, layer: int) -> int:
        """All parameters of one decoder layer, 0-based."""
        if self.traced is not None:
            return self.traced.layer(layer).parameters
        norms = self.norms_per_layer * self.norm_parameters
        return self.mixer_parameters(layer) + self.mlp_parameters(layer) + norms

    @cached_property
    def parameters_by_layer(self) -> tuple[int, ...]:
        """All parameters of every decoder layer."""
        return tuple(self.layer_parameters(layer) for layer in range(self.layers))

    @cached_property
    def decoder_parameters(self) -> int:
        """All decoder layers, without embedding, final norm and head."""
        return sum(self.parameters_by_layer)

    @cached_property
    def largest_layer_parameters(self) -> int:
        """The layer with the most parameters."""
        return max(self.parameters_by_layer)

    @cached_property
    def parameters(self) -> int:
        """All parameters, a shared embedding counted once, with ``extra_parameters``."""
        return (
            self.embedding_parameters
            + self.position_parameters
            + self.decoder_parameters
            + self.final_norm_parameters
            + self.head_parameters
            + self.extra_parameters
        )

    @property
    def active_parameters(self) -> int:
        """Parameters that take part in one token's forward pass, without the token embedding.

        The output projection counts even when it shares the embedding's weights, because it
        multiplies all the same; of the routed experts only ``experts_per_token`` count.
        ``extra_parameters`` do not count: text tokens do not pass through them.
        """
        resting = 0
        if self.moe is not None:
            idle_experts = self.moe.experts - self.moe.experts_per_token
            resting = self.sparse_layers * idle_experts * self.one_expert_parameters
        projection = self.projection_parameters
        return self.decoder_parameters - resting + self.final_norm_parameters + projection

    # -- caches -------------------------------------------------------------------------

    @property
    def kv_values_per_token(self) -> int:
        """Cached keys and values per token and layer, before tensor parallelism.

        ``2 * kv_heads * head_dim``; under latent attention ``kv_lora_rank + qk_rope_head_dim``.
        Only ``cached_layers`` of the layers have such a cache.
        """
        if self.latent is not None:
            return self.latent.kv_lora_rank + self.latent.qk_rope_head_dim
        return 2 * self.kv_heads * self.head_dim
