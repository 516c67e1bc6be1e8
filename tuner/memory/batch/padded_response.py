"""The responses of a padded micro-batch, where the head computes with their logits alone."""

from msgspec import Struct

from tuner.workload import Batch, OutputHead


class PaddedResponse(Struct, frozen=True, kw_only=True):
    """Which tokens of a padded micro-batch are responses: the same share of every sequence."""

    sequence_tokens: int
    response_tokens: int

    def rows(self, tokens: int) -> int:
        """Tokens of responses, :math:`T_r`, among all tokens of a micro-batch."""
        return round(tokens * self.response_tokens / self.sequence_tokens)

    def is_copied(self, tokens: int) -> bool:
        """Whether the logits of responses are reshaped into a copy: a single sequence's lie side by side."""
        return tokens > self.sequence_tokens


def padded_response(head: OutputHead, batch: Batch) -> PaddedResponse | None:
    """The responses that a head computes with; None where it computes with all tokens.

    A proposal to pack leaves the head to what the trainer makes of it, as it does with a compiled entropy.
    """
    if not head.slices_response:
        return None
    return PaddedResponse(sequence_tokens=batch.sequence_tokens, response_tokens=batch.max_response_tokens)
