"""Dimensions of the vision tower of a multimodal model: it turns patches of an image into tokens."""

from msgspec import Struct


class VisionTower(Struct, frozen=True, kw_only=True):
    """A vision transformer over patches of images, and a merger that makes one token of a square of them.

    All sizes are element counts, not bytes. Attention is within an image or a window of it, never across
    images.
    """

    blocks: int
    block_unit: int  # parameters of a block, which FSDP gathers together
    width: int
    heads: int
    inner: int  # width of the MLP
    patch: int  # pixels of a patch along either side
    values: int  # numbers of a patch as the processor hands it over, its frames and colours
    merge: int  # patches along either side of the square that becomes one token
    mergers: int = 1  # the one behind the last block, and further ones whose tokens go to decoder layers
    image_tokens: int | None = None  # of every image, where the processor makes all of one size
    pools: bool = False  # the merger projects the mean of a square
    embeds_patches: bool = False  # by a layer that transformers finds as it finds the embedding of tokens
    rotates: bool = True  # queries and keys, by tables for every patch
    rms_norms: bool = False  # RMSNorm instead of LayerNorm
    gated: bool = False  # the MLP
    windowed_blocks: int = 0  # blocks whose attention is limited to a window
    window_patches: int = 0
    kept_inner: int  # tensors of the MLP's inner width that a block keeps for its backward pass
    gradients_inner: int  # tensors of that width that differentiating the activation adds to them

    @property
    def head_dim(self) -> int:
        """Width of a query or a key head."""
        return self.width // self.heads

    @property
    def block_parameters(self) -> int:
        """Weights that one block multiplies a patch with."""
        return 4 * self.width**2 + (3 if self.gated else 2) * self.width * self.inner

    @property
    def patches_per_token(self) -> int:
        """Patches that become one token."""
        return self.merge**2

    def tokens_of(self, pixels: int) -> int:
        """Tokens of an image of so many pixels, which the processor has made a multiple of its squares."""
        return max(1, -(-pixels // (self.patch * self.merge) ** 2))

    def pixels_of(self, tokens: int) -> int:
        """Pixels of an image of so many tokens."""
        return tokens * (self.patch * self.merge) ** 2
