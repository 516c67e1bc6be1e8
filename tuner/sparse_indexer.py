"""The part of sparse attention that chooses the keys which each query attends to."""

from msgspec import Struct


class SparseIndexer(Struct, frozen=True, kw_only=True):
    """Scores every key with a few narrow heads, so that attention need see only the best (DeepSeek-V3.2)."""

    heads: int
    head_dim: int  # one key of this width is shared by all of its heads
    layers: tuple[int, ...]  # indices of the layers that choose; the others take the choice of one before

    def parameters(self, hidden: int, query_rank: int) -> int:
        """Weights of one layer's indexer.

        Queries are made of the compressed vector of the attention's own queries, ``query_rank`` wide;
        the key has a LayerNorm with bias, and each head a weight made of the layer's input.

        Source: transformers ``DeepseekV32Indexer``.
        """
        queries = query_rank * self.heads * self.head_dim
        return queries + hidden * (self.head_dim + self.heads) + 2 * self.head_dim
