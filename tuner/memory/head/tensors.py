"""Tensors of an output head whose logits exist, and the sum of their bytes.

A tensor has a row for some of the tokens and a column for each vocabulary entry. The same sum is taken
over numbers, for the bytes, and over symbols, for the formula; a tensor's name is a symbol of it.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from msgspec import Struct

from tuner.enumeration import Enum
from tuner.memory.ledger.formula import Expression
from tuner.workload import OutputHead


class TokenSpan(Enum):
    """Which tokens a tensor of the head has a row for."""

    ALL = "all"
    CHUNK = "chunk"
    LAST = "last chunk"  # of as many tokens as are left
    BEFORE_LAST = "before the last chunk"
    BEFORE_LAST_TWO = "before the last two chunks"
    RESPONSE = "response"

    def rows(self, *, T: int, T_c: int, T_l: int, T_r: int) -> int:
        """How many of :math:`T` tokens these are, in chunks of :math:`T_c`, the last one of :math:`T_l`.

        Where responses have tensors of their own, they are :math:`T_r` of these tokens.
        """
        match self:
            case TokenSpan.ALL:
                return T
            case TokenSpan.CHUNK:
                return T_c
            case TokenSpan.LAST:
                return T_l
            case TokenSpan.BEFORE_LAST:
                return T - T_l
            case TokenSpan.BEFORE_LAST_TWO:
                return T - T_l - T_c
            case TokenSpan.RESPONSE:
                return T_r


class LogitTensor(Struct, frozen=True, kw_only=True):
    """One tensor with a row for each token of its span and a column for each vocabulary entry."""

    name: str  # stable identifier
    bytes_per_logit: int
    span: TokenSpan = TokenSpan.ALL


Tensors = tuple[LogitTensor, ...]


def logit_sized(bytes_per_logit: int, *names: str, span: TokenSpan = TokenSpan.ALL) -> Tensors:
    """Tensors of these names that are alike."""
    return tuple(LogitTensor(name=name, bytes_per_logit=bytes_per_logit, span=span) for name in names)


def entropy_chunk(head: OutputHead, tokens: int) -> int:
    """Tokens of one chunk of the entropy, :math:`T_c`; all of them where it is not computed in chunks."""
    return tokens if head.chunk_tokens is None else min(head.chunk_tokens, tokens)


def last_chunk(tokens: int, chunk: int) -> int:
    """Tokens of the last chunk, :math:`T_l`."""
    return tokens - chunk * ((tokens - 1) // chunk)


def total(
    tensors: Tensors,
    bytes_per_logit: Callable[[LogitTensor], Any],
    *,
    columns: Any,
    T: Any,
    T_c: Any,
    T_l: Any,
    T_r: Any,
) -> Any:
    """The sum of some tensors, in numbers or in symbols: rows of each span times bytes per logit."""
    by_span: dict[TokenSpan, list[Any]] = {}
    for tensor in tensors:
        by_span.setdefault(tensor.span, []).append(bytes_per_logit(tensor))
    return columns * sum(
        span.rows(T=T, T_c=T_c, T_l=T_l, T_r=T_r) * sum(sizes) for span, sizes in by_span.items()
    )


def tensor_bytes(
    tensors: Tensors, *, tokens: int, chunk: int, columns: int = 1, response: int | None = None
) -> int:
    """Bytes of some tensors; of one column, and with all tokens those of responses, unless said otherwise."""
    size: int = total(
        tensors,
        lambda tensor: tensor.bytes_per_logit,
        columns=columns,
        T=tokens,
        T_c=chunk,
        T_l=last_chunk(tokens, chunk),
        T_r=tokens if response is None else response,
    )
    return size


@lru_cache(maxsize=256)
def tensor_formula(tensors: Tensors, columns: str) -> str:
    """Bytes of some tensors as a sum in symbols; ``columns`` is the symbol of the vocabulary entries."""
    symbol = Expression.symbol
    formula = total(
        tensors,
        lambda tensor: symbol(tensor.name),
        columns=symbol(columns),
        T=symbol("T"),
        T_c=symbol("T_c"),
        T_l=symbol("T_l"),
        T_r=symbol("T_r"),
    )
    return str(formula)


def largest_set(*sets: Tensors, tokens: int, chunk: int, response: int | None = None) -> Tensors:
    """The tensors that take the most; the first of equals."""
    return max(sets, key=lambda tensors: tensor_bytes(tensors, tokens=tokens, chunk=chunk, response=response))
