"""Whole numbers that remember the arithmetic done with them.

The memory model computes sizes from the dimensions of a model. Run on a model whose dimensions are
recorded numbers, the same functions give the same sizes together with their formulas, so that a
formula that is shown cannot differ from the one that was computed.
"""

from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from tuner.memory.ledger.formula import Expression, names
from tuner.model_shape import ModelShape
from tuner.workload import Workload

_NESTED = ("moe", "latent", "linear")

#: Dimensions of a model that are symbols in the formulas.
DIMENSIONS = {
    "hidden": "H",
    "layers": "L",
    "heads": "h",
    "kv_heads": "k",
    "head_dim": "d",
    "intermediate": "I",
    "vocab": "V",
    "experts": "E",
    "experts_per_token": "e",
    "expert_intermediate": "I_e",
    "shared_intermediate": "I_s",
    "kv_lora_rank": "r_k",
    "q_lora_rank": "r_q",
    "qk_nope_head_dim": "d_n",
    "qk_rope_head_dim": "d_r",
    "v_head_dim": "d_v",
    "key_heads": "h_k",
    "value_heads": "h_v",
    "key_head_dim": "d_k",
    "value_head_dim": "d_w",
    "conv_kernel": "k_c",
}


class Derivation(Struct, frozen=True, kw_only=True):
    """How a number came about: its formula, and the numbers put in."""

    value: int
    formula: str
    symbols: tuple[tuple[str, int], ...]


class RecordedNumber(int):
    """A number and the formula it was computed by; anything else it takes part in is plain."""

    _expression: Expression
    _symbols: dict[str, int]

    @classmethod
    def symbol(cls, name: str, value: int) -> "RecordedNumber":
        """A number with a name."""
        return cls._of(int(value), Expression.symbol(name), {name: int(value)})

    @classmethod
    def _of(cls, value: int, expression: Expression, symbols: dict[str, int]) -> "RecordedNumber":
        made = cls(value)
        made._expression, made._symbols = expression, symbols
        return made

    def derivation(self) -> Derivation:
        """The formula of this number."""
        text = str(self._expression)
        used = tuple((name, self._symbols[name]) for name in names(text))
        return Derivation(value=int(self), formula=text, symbols=used)

    def _with(self, value: int, expression: Expression, other: "RecordedNumber") -> "RecordedNumber":
        """The result of an operation with another number."""
        return RecordedNumber._of(value, expression, self._symbols | other._symbols)

    # With a float the result is plain: Python then asks the float.

    def __add__(self, other: object) -> "RecordedNumber":
        if not isinstance(other, int):
            return NotImplemented
        addend = _as_recorded_number(other)
        return self._with(int(self) + int(addend), self._expression + addend._expression, addend)

    __radd__ = __add__

    def __sub__(self, other: object) -> "RecordedNumber":
        return self + -_as_recorded_number(other) if isinstance(other, int) else NotImplemented

    def __rsub__(self, other: object) -> "RecordedNumber":
        return _as_recorded_number(other) - self if isinstance(other, int) else NotImplemented

    def __mul__(self, other: object) -> "RecordedNumber":
        if not isinstance(other, int):
            return NotImplemented
        if not isinstance(other, RecordedNumber):
            return RecordedNumber._of(int(self) * other, self._expression * other, self._symbols)
        return self._with(int(self) * int(other), self._expression * other._expression, other)

    __rmul__ = __mul__

    def __neg__(self) -> "RecordedNumber":
        return self * -1

    def __floordiv__(self, other: object) -> "RecordedNumber":
        if not isinstance(other, int):
            return NotImplemented
        divisor = _as_recorded_number(other)
        return self._with(int(self) // int(divisor), self._expression // divisor._expression, divisor)

    def __rfloordiv__(self, other: object) -> "RecordedNumber":
        return _as_recorded_number(other) // self if isinstance(other, int) else NotImplemented

    def __truediv__(self, other: object) -> "_Quotient":
        return _Quotient.of(self, _as_recorded_number(other)) if isinstance(other, int) else NotImplemented

    def __rtruediv__(self, other: object) -> "_Quotient":
        return _Quotient.of(_as_recorded_number(other), self) if isinstance(other, int) else NotImplemented


class _Quotient(float):
    """A division that is going to be rounded up."""

    _dividend: RecordedNumber
    _divisor: RecordedNumber

    @classmethod
    def of(cls, dividend: RecordedNumber, divisor: RecordedNumber) -> "_Quotient":
        made = cls(int(dividend) / int(divisor))
        made._dividend, made._divisor = dividend, divisor
        return made

    def __ceil__(self) -> RecordedNumber:
        return -(-self._dividend // self._divisor)


def _as_recorded_number(number: int) -> RecordedNumber:
    return (
        number
        if isinstance(number, RecordedNumber)
        else RecordedNumber._of(number, Expression.constant(number), {})
    )


def derivation(number: int) -> Derivation:
    """The formula of a number that was computed from recorded ones; a plain number is its own."""
    return _as_recorded_number(number).derivation()


class RecordedModel(ModelShape, frozen=True, kw_only=True):
    """A model whose dimensions remember what is done with them.

    A type of its own is never equal to the plain model, so that no cache takes one's results for the other's.
    """


def recorded_model(model: ModelShape) -> RecordedModel:
    """The model with its dimensions as symbols; what was counted instead of derived stays plain."""
    return RecordedModel(**_with_symbols(model))


def _with_symbols(shape: Struct) -> dict[str, Any]:
    """The fields of a model, or of a part of it, with symbols for dimensions."""
    fields = asdict(shape)
    for name, value in fields.items():
        if name in DIMENSIONS and isinstance(value, int) and value:
            fields[name] = RecordedNumber.symbol(DIMENSIONS[name], value)
        elif name in _NESTED and value is not None:
            fields[name] = replace(value, **_with_symbols(value))
    return fields


def recorded_workload(workload: Workload) -> Workload:
    """The workload with the dimensions of its models as symbols."""
    critic = workload.critic
    return replace(
        workload,
        model=recorded_model(workload.model),
        critic=None if critic is None else replace(critic, model=recorded_model(critic.model)),
        services=tuple(
            service if service.model is None else replace(service, model=recorded_model(service.model))
            for service in workload.services
        ),
    )
