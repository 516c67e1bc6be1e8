"""Whole numbers that remember the arithmetic done with them.

The memory model computes sizes from the dimensions of a model. Run on a model whose dimensions are
recorded numbers, the same functions give the same sizes together with their formulas, so that a
formula that is shown cannot differ from the one that was computed.
"""

from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from tuner.memory.ledger.formula import names
from tuner.model_shape import ModelShape
from tuner.workload import Workload

_Shape = TypeVar("_Shape", bound=Struct)
_Product = tuple[str, ...]
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


class Recorded(int):
    """A number and the sum of products it was computed as; anything else it takes part in is plain."""

    _products: dict[_Product, int]  # factors, and how often the product is taken
    _symbols: dict[str, int]

    @classmethod
    def symbol(cls, name: str, value: int) -> "Recorded":
        """A number with a name."""
        return cls._of(int(value), {(name,): 1}, {name: int(value)})

    @classmethod
    def _of(cls, value: int, products: dict[_Product, int], symbols: dict[str, int]) -> "Recorded":
        made = cls(value)
        made._products = {product: times for product, times in products.items() if times}
        made._symbols = symbols
        return made

    # Not equal to a plain number's, or a cached result of a plain model would be taken for this one's.
    def __hash__(self) -> int:
        return hash((int(self), tuple(self._symbols)))

    def __eq__(self, other: object) -> bool:
        return int(self) == other

    def derivation(self) -> Derivation:
        """The formula of this number."""
        text = self._text()
        used = tuple((name, self._symbols[name]) for name in names(text))
        return Derivation(value=int(self), formula=text, symbols=used)

    def _text(self) -> str:
        text = ""
        for product, times in self._products.items():
            coefficient = () if abs(times) == 1 and product else (str(abs(times)),)
            sign = (" - " if times < 0 else " + ") if text else ("0 - " if times < 0 else "")
            text += sign + " ".join((*coefficient, *product))
        return text or "0"

    def _factor(self) -> tuple[_Product, int]:
        """This number as a product, a sum in parentheses."""
        if len(self._products) == 1:
            return next(iter(self._products.items()))
        return (f"({self._text()})",), 1

    # With a float the result is plain: Python then asks the float.

    def __add__(self, other: object) -> "Recorded":
        if not isinstance(other, int):
            return NotImplemented
        added = _recorded(other)
        products = dict(self._products)
        for product, times in added._products.items():
            products[product] = products.get(product, 0) + times
        return Recorded._of(int(self) + int(added), products, self._symbols | added._symbols)

    __radd__ = __add__

    def __sub__(self, other: object) -> "Recorded":
        return self + _recorded(other) * -1 if isinstance(other, int) else NotImplemented

    def __rsub__(self, other: object) -> "Recorded":
        return _recorded(other) - self if isinstance(other, int) else NotImplemented

    def __mul__(self, other: object) -> "Recorded":
        if not isinstance(other, int):
            return NotImplemented
        if not isinstance(other, Recorded):
            products = {product: times * other for product, times in self._products.items()}
            whole = products if len(products) < 2 else {self._factor()[0]: other}
            return Recorded._of(int(self) * other, whole, self._symbols)
        if not (self._products and other._products):
            return Recorded._of(0, {}, {})
        (left, times), (right, more) = self._factor(), other._factor()
        return Recorded._of(
            int(self) * int(other), {(*left, *right): times * more}, self._symbols | other._symbols
        )

    __rmul__ = __mul__

    def __neg__(self) -> "Recorded":
        return self * -1

    def __floordiv__(self, other: object) -> "Recorded":
        if not isinstance(other, int):
            return NotImplemented
        if max(self._products.values(), default=0) < 0:  # -(-a // b) rounds up
            return -_quotient("ceil", -(int(self) // int(other)), -self, _recorded(other))
        return _quotient("floor", int(self) // int(other), self, _recorded(other))

    def __rfloordiv__(self, other: object) -> "Recorded":
        return _recorded(other) // self if isinstance(other, int) else NotImplemented

    def __truediv__(self, other: object) -> "_Quotient":
        return _Quotient.of(self, _recorded(other)) if isinstance(other, int) else NotImplemented

    def __rtruediv__(self, other: object) -> "_Quotient":
        return _Quotient.of(_recorded(other), self) if isinstance(other, int) else NotImplemented


class _Quotient(float):
    """A division that is going to be rounded up."""

    _dividend: Recorded
    _divisor: Recorded

    @classmethod
    def of(cls, dividend: Recorded, divisor: Recorded) -> "_Quotient":
        made = cls(int(dividend) / int(divisor))
        made._dividend, made._divisor = dividend, divisor
        return made

    def __ceil__(self) -> Recorded:
        value = -(-int(self._dividend) // int(self._divisor))
        return _quotient("ceil", value, self._dividend, self._divisor)


def _quotient(rounding: str, value: int, dividend: Recorded, divisor: Recorded) -> Recorded:
    if divisor._products == {(): 1}:
        return dividend
    above = dividend._text() if len(dividend._products) == 1 else f"({dividend._text()})"
    factors, times = divisor._factor()
    words = factors if times == 1 and factors else (str(times), *factors)
    below = words[0] if len(words) == 1 else f"({' '.join(words)})"
    factor = f"{rounding}({above} / {below})"
    return Recorded._of(value, {(factor,): 1}, dividend._symbols | divisor._symbols)


def _recorded(number: int) -> Recorded:
    return number if isinstance(number, Recorded) else Recorded._of(number, {(): number}, {})


def derivation(number: int) -> Derivation:
    """The formula of a number that was computed from recorded ones; a plain number is its own."""
    return _recorded(number).derivation()


def recorded_model(model: ModelShape) -> ModelShape:
    """The model with its dimensions as symbols; what was counted instead of derived stays plain."""
    return _with_symbols(model)


def _with_symbols(shape: _Shape) -> _Shape:
    changes: dict[str, Any] = {}
    for name, value in asdict(shape).items():
        if name in DIMENSIONS and isinstance(value, int) and value:
            changes[name] = Recorded.symbol(DIMENSIONS[name], value)
        elif name in _NESTED and value is not None:
            changes[name] = _with_symbols(value)
    return replace(shape, **changes)


def recorded_workload(workload: Workload) -> Workload:
    """The workload with the dimensions of its models as symbols."""
    critic = workload.critic
    return replace(
        workload,
        model=recorded_model(workload.model),
        critic=None if critic is None else replace(critic, model=recorded_model(critic.model)),
    )
