"""Every way to compute log-probabilities and entropy side by side, and what else a model's tokens take."""

from msgspec import Struct
from msgspec.structs import replace

from tuner.advise.allocation import Explanation, explain_without_a_job
from tuner.consultation.cluster import ChosenGpu, choose_card
from tuner.consultation.models import model_shape
from tuner.consultation.premises import HEAD_TOKENS, Premises
from tuner.dtypes import DType, parse_dtype
from tuner.errors import InputError
from tuner.language import _
from tuner.memory.failed_allocation.explanation import parse_failed_allocation
from tuner.memory.head.terms import head_peak_bytes
from tuner.memory.layer.activations import all_layers_saved_bytes, layer_input_bytes
from tuner.model_shape import ModelShape
from tuner.units import KIB, parse_count
from tuner.workload import Backend, Checkpointing, Engine, OutputHead, Parallelism
from tuner.workload.head import COMPARED_HEADS

_DEFAULT_HIDDEN = 3584


class HeadSizes(Struct, frozen=True, kw_only=True):
    """One micro-batch on one GPU."""

    tokens: int
    vocab: int
    hidden: int
    dtype: DType


class HeadRow(Struct, frozen=True, kw_only=True):
    """The peak of one way, in each direction, without and with entropy."""

    name: str
    forward_bytes: int
    forward_entropy_bytes: int
    training_bytes: int
    training_entropy_bytes: int


class TokenRow(Struct, frozen=True, kw_only=True):
    """What tokens of a model take besides the output head."""

    name: str
    bytes_per_token: int
    bytes: int


def head_rows(sizes: HeadSizes) -> tuple[HeadRow, ...]:
    """The peak of every way."""

    def peak(head: OutputHead, *, entropy: bool, training: bool) -> int:
        return head_peak_bytes(
            replace(head, logits_dtype=sizes.dtype),
            tokens=sizes.tokens,
            vocab=sizes.vocab,
            hidden=sizes.hidden,
            entropy=entropy,
            training=training,
        )

    return tuple(
        HeadRow(
            name=name,
            forward_bytes=peak(head, entropy=False, training=False),
            forward_entropy_bytes=peak(head, entropy=True, training=False),
            training_bytes=peak(head, entropy=False, training=True),
            training_entropy_bytes=peak(head, entropy=True, training=True),
        )
        for name, head in COMPARED_HEADS.items()
    )


def token_rows(sizes: HeadSizes, model: ModelShape) -> tuple[TokenRow, ...]:
    """KV cache and activations of the whole model on one GPU, nothing divided."""
    engine = _engine(sizes.dtype)
    amounts = (
        (_("KV cache"), model.kv_values_per_token * model.cached_layers * sizes.dtype.bytes),
        (_("activations, checkpointed"), layer_input_bytes(model, engine) * model.layers),
        (_("activations, all kept"), all_layers_saved_bytes(model, engine)),
    )
    return tuple(
        TokenRow(name=name, bytes_per_token=amount, bytes=amount * sizes.tokens) for name, amount in amounts
    )


def _engine(dtype: DType) -> Engine:
    return Engine(
        backend=Backend.FSDP2,
        parallel=Parallelism(gpus=1),
        stored_dtype=DType.FLOAT32,
        compute_dtype=dtype,
        reduce_dtype=DType.FLOAT32,
        optimizer_dtype=DType.FLOAT32,
        checkpointing=Checkpointing.NONE,
        packed=True,
    )


class HeadConsultation(Struct, frozen=True, kw_only=True):
    """The sizes of a micro-batch that were asked about, and what goes with them."""

    sizes: HeadSizes
    model: ModelShape | None
    allocation: Explanation | None  # of a failed allocation that was asked about
    card: ChosenGpu | None = None  # whose memory is held against it, where one is named


def consult_head(
    *,
    vocab: str | None = None,
    tokens: str | None = None,
    hidden: str | None = None,
    dtype: str = "bf16",
    model: str | None = None,
    trace: bool = False,
    failed_allocation: str | None = None,
    gpu: str | None = None,
    gpu_memory: str | None = None,
) -> HeadConsultation:
    """What is asked about the output head, in numbers.

    Args:
        vocab: entries of the vocabulary, 152k for 152,000; the model's where None.
        tokens: of one micro-batch on one GPU, 16k for 16,384.
        hidden: width of the model, which the fused heads depend on.
        dtype: number format of logits, activations and KV cache.
        model: a bundled name, a folder, or a ``config.json``.
        trace: whether the model's tensors are counted in transformers' implementation.
        failed_allocation: bytes that found no room, with their unit.
        gpu: a card that it is held against, and
        gpu_memory: its memory, with the unit.

    Raises:
        InputError: a number or a name cannot be read, or neither a vocabulary nor a model is given.
    """
    if trace and model is None:
        raise InputError(_("there is no model to trace"), hint=_("add --model NAME|DIR|FILE"))
    shape = model_shape(model, trace=trace) if model is not None else None
    if vocab is None and shape is None:
        raise InputError(
            _("neither a vocabulary nor a model is given"), hint=_("add --vocab 152k or --model NAME")
        )
    sizes = HeadSizes(
        tokens=parse_count(tokens or HEAD_TOKENS, thousand=KIB),
        vocab=parse_count(vocab) if vocab is not None else (shape.vocab if shape else 0),
        hidden=parse_count(hidden) if hidden is not None else (shape.hidden if shape else _DEFAULT_HIDDEN),
        dtype=parse_dtype(dtype),
    )
    if shape is not None and trace:
        from tuner.trace.limits import expect_counted_format

        expect_counted_format(shape, sizes.dtype)
    allocation = None
    if failed_allocation is not None:
        allocation = explain_without_a_job(
            parse_failed_allocation(failed_allocation),
            vocab=sizes.vocab,
            dtype=sizes.dtype,
            tokens=sizes.tokens if tokens is not None else None,
            model=shape,
        )
    card = None
    if gpu is not None or gpu_memory is not None:
        card = choose_card(Premises(gpu=gpu, gpu_memory=gpu_memory))
    return HeadConsultation(sizes=sizes, model=shape, allocation=allocation, card=card)
