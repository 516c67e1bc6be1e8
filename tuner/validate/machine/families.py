"""Families of operators: what a few shapes show, over what the time model goes by."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from statistics import geometric_mean

from msgspec.structs import replace

from tuner.dtypes import DType
from tuner.hardware import Gpu, MeasuredGpu
from tuner.language import N_, _
from tuner.model_shape import ModelShape
from tuner.timing.corrections import OperatorFamily
from tuner.timing.host import host_seconds
from tuner.timing.operators import elementwise_of
from tuner.timing.rates import (
    elementwise_bytes_per_s,
    head_product_flop_per_s,
    layer_attention_flop_per_s,
    layer_product_flop_per_s,
)
from tuner.validate.machine.readings import OperatorRate, OperatorSizes
from tuner.validate.report.profile import FACTOR_TOLERANCE, PROFILE_FIGURES
from tuner.validate.report.schema import Measurement

_ROWS, _LENGTHS = (2048, 8192), (1024, 4096)
FAMILIES = {
    "products": OperatorFamily.PRODUCTS,
    "attention": OperatorFamily.ATTENTION,
    "norm": OperatorFamily.ELEMENTWISE,
    "gate": OperatorFamily.ELEMENTWISE,
    "head": OperatorFamily.HEAD,
    "host": OperatorFamily.HOST,
}
_WHAT = {
    OperatorFamily.PRODUCTS: N_("products of a layer, measured over modelled rate"),
    OperatorFamily.ATTENTION: N_("attention, measured over modelled rate"),
    OperatorFamily.ELEMENTWISE: N_("element-wise kernels of a layer, measured over modelled rate"),
    OperatorFamily.HEAD: N_("product with the output projection, measured over modelled rate"),
    OperatorFamily.HOST: N_("launching a layer's kernels on the host, measured over modelled rate"),
}


def operator_sizes(model: ModelShape) -> OperatorSizes:
    """A layer of the job's model, and a few numbers of tokens."""
    return OperatorSizes(
        hidden=model.hidden,
        intermediate=model.intermediate or model.hidden,
        heads_width=model.heads * model.head_dim,
        kv_width=model.kv_heads * model.head_dim,
        head_dim=model.head_dim,
        vocab=model.vocab,
        rows=_ROWS,
        lengths=_LENGTHS,
    )


def factors(rates: Iterable[OperatorRate], sizes: OperatorSizes, gpu: Gpu) -> Iterator[Measurement]:
    """Each family's measured rates over the modelled ones: the geometric mean over its shapes.

    Args:
        rates: as the worker has measured them.
        sizes: what they were measured on.
        gpu: the card, with the rates that this run measured of it; factors that it has from before are held
            against the new ones, and are not part of what is modelled.
    """
    bare = _without_factors(gpu)
    shown: dict[OperatorFamily, list[tuple[OperatorRate, float]]] = defaultdict(list)
    for rate in rates:
        shown[FAMILIES[rate.family]].append((rate, rate.per_s / modelled(rate, sizes, bare)))
    for family, ratios in shown.items():
        before = None if gpu.measured is None else getattr(gpu.measured, family.value)
        yield Measurement(
            name=PROFILE_FIGURES[family.value],
            what=_(_WHAT[family]),
            unit="share",
            measured=geometric_mean(ratio for _rate, ratio in ratios),
            predicted=before,
            tolerance=None if before is None else FACTOR_TOLERANCE,
            details={_name(rate): ratio for rate, ratio in ratios},
        )


def _name(rate: OperatorRate) -> str:
    return f"{rate.family}_{rate.tokens}{'_backward' if rate.backward else ''}"


def _without_factors(gpu: Gpu) -> Gpu:
    measured: MeasuredGpu | None = gpu.measured
    if measured is None:
        return gpu
    return replace(gpu, measured=replace(measured, **{family.value: None for family in OperatorFamily}))


def modelled(rate: OperatorRate, sizes: OperatorSizes, gpu: Gpu) -> float:
    """What the time model takes for this operator, in the units of the measured rate."""
    dtype, tokens = DType.BFLOAT16, rate.tokens
    if rate.family == "products":
        width = min(sizes.hidden, sizes.intermediate)
        return layer_product_flop_per_s(gpu, dtype, width=width, rows=tokens, backward=rate.backward)
    if rate.family == "attention":
        return layer_attention_flop_per_s(gpu, head_dim=sizes.head_dim, tokens=tokens, backward=rate.backward)
    if rate.family == "head":
        return head_product_flop_per_s(gpu, dtype)
    if rate.family == "host":
        return 1 / host_seconds(gpu.name, "plain", query_key_norms=False, ranks=1).forward_s
    table = elementwise_of(gpu.name)
    operation, width = {
        "norm": (table.norm, sizes.hidden),
        "gate": (table.gate, sizes.intermediate),
    }[rate.family]
    values = float(tokens * width)
    return values * elementwise_bytes_per_s(gpu) / table.bytes_of(operation, values, backward=rate.backward)
