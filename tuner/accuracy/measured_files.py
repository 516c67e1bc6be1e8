"""Files of measured peaks: pydantic models, published as a JSON Schema, and their reader."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tuner.errors import InputError, Location
from tuner.files import is_there, read_bytes
from tuner.language import _
from tuner.units import LARGEST, MIB

MAX_BYTES = 16 * MIB  # a recorded pass has less than 0.001 MiB
_FIGURE = r"(_bytes|seconds)$"  # names of what is measured, never of a setting

Count = Annotated[int, Field(ge=1, le=LARGEST)]
Bytes = Annotated[int, Field(ge=0, le=LARGEST, description="bytes")]


class _Model(BaseModel):
    # A misspelled setting must not be taken for one that is off, so nothing unknown is accepted.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class MeasuredCase(_Model):
    """One measured pass of verl's FSDP engine, as one GPU saw it.

    A switch that is not given is off. Further figures, whose names end in ``_bytes`` or ``seconds``,
    may be there and are not read.
    """

    model_config = ConfigDict(json_schema_extra={"patternProperties": {_FIGURE: {}}})

    model: Annotated[
        str, Field(description="bundled model name, model folder or config.json; from the file's folder too")
    ]
    layers: Annotated[
        int | None, Field(ge=1, le=1_000_000, description="first layers that the model is cut to; null: all")
    ] = None
    critic: Annotated[bool, Field(description="a value head in the place of the output head")] = False
    pass_: Annotated[
        Literal["log_prob", "update", "fine_tuning"],
        Field(
            alias="pass",
            description="forward only, or a whole update with its optimizer step, of an actor or a "
            "critic, or by the loss of supervised fine-tuning",
        ),
    ]
    strategy: Literal["fsdp", "fsdp2"]
    world_size: Annotated[int, Field(ge=1, le=1_000_000, description="GPUs, over which states are sharded")]
    fsdp_size: Annotated[
        int | None, Field(ge=1, le=1_000_000, description="GPUs that share one copy of the states; null: all")
    ] = None
    ulysses: Annotated[int, Field(ge=1, description="GPUs that share one sequence")] = 1
    model_dtype: Annotated[
        Literal["fp32", "float32", "bf16", "bfloat16"], Field(description="of the stored parameters")
    ]
    tokens: Annotated[Count, Field(description="of one micro-batch on this GPU")]
    sequence_length: Annotated[Count, Field(description="tokens of every sequence, whole")]
    micro_batches: Annotated[int, Field(ge=1, le=1_000_000, description="of one optimizer step")] = 1
    lora_rank: Annotated[
        int, Field(ge=0, le=100_000, description="of adapters on all linear layers; 0 without")
    ] = 0
    temperature: Annotated[float, Field(gt=0)]
    gradient_checkpointing: bool
    reshard_after_forward: bool
    use_torch_compile: Annotated[bool, Field(description="of the entropy")]
    fused_kernels: Annotated[
        Literal["torch", "triton", "tuner"] | None,
        Field(description="of the output head; tuner: that of tuner.inside_verl; null without"),
    ] = None
    use_liger: Annotated[bool, Field(description="Liger's layers in the place of transformers'")] = False
    calculate_entropy: bool
    entropy_chunking: bool = False
    entropy_checkpointing: bool = False
    activation_offload: bool = False
    param_offload: bool = False
    optimizer_offload: bool = False
    forward_only_engine: Annotated[
        bool, Field(description="an engine like the reference's, its parameters on the host")
    ] = False
    forward_prefetch: bool = False
    reads_positions: Annotated[
        bool, Field(description="flash attention of transformers, which asks the GPU where sequences begin")
    ] = False
    deferred_gradient_sync: bool = False
    frozen_tower: Annotated[bool, Field(description="a vision tower without gradients")] = False
    images_per_prompt: Annotated[int, Field(ge=0, le=LARGEST, description="of every sequence")] = 0
    image_pixels: Annotated[
        int, Field(ge=0, le=LARGEST, description="of one image, as its processor has resized it")
    ] = 0
    allocated_before_bytes: Annotated[Bytes, Field(description="bytes of tensors when the pass began")]
    peak_allocated_bytes: Annotated[
        Bytes, Field(description="bytes at the peak of PyTorch's allocator, reset before the pass")
    ]
    peak_requested_bytes: Bytes | None = None
    peak_reserved_bytes: Bytes | None = None
    non_torch_bytes: Annotated[
        Bytes | None, Field(description="bytes on the GPU that PyTorch's allocator does not hold")
    ] = None
    seconds: Annotated[float | None, Field(ge=0, description="of one call, or the median of several")] = None
    repeated_seconds: Annotated[
        tuple[Annotated[float, Field(ge=0)], ...],
        Field(strict=False, description="of each of several calls on a warm GPU; empty: there was one"),
    ] = ()

    @property
    def trains(self) -> bool:
        """Whether the pass ends in a step of the optimizer."""
        return self.pass_ != "log_prob"

    @model_validator(mode="before")
    @classmethod
    def _without_further_figures(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        known = {field.alias or name for name, field in cls.model_fields.items()}
        return {key: value for key, value in values.items() if key in known or not re.search(_FIGURE, key)}

    @model_validator(mode="after")
    def _consistent(self) -> "MeasuredCase":
        if self.world_size % self.ulysses:
            raise ValueError(f"world_size {self.world_size} is no multiple of ulysses {self.ulysses}")
        if self.world_size % self.shard:
            raise ValueError(f"world_size {self.world_size} is no multiple of fsdp_size {self.fsdp_size}")
        if self.tokens * self.ulysses % self.sequence_length:
            raise ValueError(
                f"tokens {self.tokens} times ulysses {self.ulysses} is no multiple of "
                f"sequence_length {self.sequence_length}"
            )
        if bool(self.images_per_prompt) != bool(self.image_pixels):
            raise ValueError("images_per_prompt and image_pixels go together")
        if self.trains and self.forward_only_engine:
            raise ValueError("pass is update, which a forward_only_engine does not have")
        if self.peak_allocated_bytes <= self.allocated_before_bytes:
            raise ValueError("peak_allocated_bytes is not above allocated_before_bytes")
        return self

    @property
    def shard(self) -> int:
        """GPUs that share one copy of the states; verl takes a larger ``fsdp_size`` for all."""
        return self.world_size if self.fsdp_size is None else min(self.fsdp_size, self.world_size)

    @property
    def sequences(self) -> int:
        """Sequences of one micro-batch, over the GPUs that share them."""
        return self.tokens * self.ulysses // self.sequence_length


class MeasuredFile(_Model):
    """Measured passes of one setup."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, title="measured passes"
    )

    what: str = ""
    hardware: str = ""
    software: Annotated[dict[str, str], Field(description="versions by name")] = {}
    notes: tuple[str, ...] = ()
    date: str = ""
    cases: Annotated[tuple[MeasuredCase, ...], Field(description="one at least, but in a report")]
    validation: Annotated[
        dict[str, Any] | None, Field(description="of tuner validate; of it the seconds of the cases are read")
    ] = None

    @model_validator(mode="after")
    def _with_cases(self) -> "MeasuredFile":
        if not self.cases and self.validation is None:
            raise ValueError("cases: has no pass")
        return self


def read_measured(file: Path) -> MeasuredFile:
    """Read one file of measured passes.

    Raises:
        InputError: it cannot be read, is not JSON, or a case of it is not as :class:`MeasuredCase` says.
    """
    return parse_measured(file, read_bytes(file, most=MAX_BYTES))


def parse_measured(file: Path, content: bytes) -> MeasuredFile:
    """The measured passes of a file's content.

    Raises:
        InputError: it is not JSON, or a case of it is not as :class:`MeasuredCase` says.
    """
    try:
        return _with_models_beside(file, MeasuredFile.model_validate_json(content))
    except ValidationError as error:
        raise problem(
            error,
            Location(source=str(file)),
            hint=_("tuner schema measured prints what such a file holds"),
        ) from None


def problem(error: ValidationError, where: Location, *, hint: str) -> InputError:
    """What is wrong with a record, as one message: the first of its problems, and how many more there are."""
    problems = error.errors(include_url=False)
    first = problems[0]
    more = _(" ({problems} more)").format(problems=len(problems) - 1) if len(problems) > 1 else ""
    return InputError(
        f"{_message(first['type'], first['msg'])}{more}",
        location=where,
        key=_key(first["loc"]),
        hint=hint,
    )


def _with_models_beside(file: Path, measured: MeasuredFile) -> MeasuredFile:
    """Model folders that are named from the file's own folder, named from the current one."""
    cases = (
        case.model_copy(update={"model": str(file.parent / case.model)})
        if case.model and is_there(file.parent / case.model)
        else case
        for case in measured.cases
    )
    return measured.model_copy(update={"cases": tuple(cases)})


def _message(kind: str, text: str) -> str:
    known = {"missing": _("is missing"), "extra_forbidden": _("is not known")}
    text = known.get(kind, text.removeprefix("Value error, "))
    return text[:1].lower() + text[1:] if text.startswith("Input ") else text


def _key(place: tuple[int | str, ...]) -> str | None:
    """``("cases", 3, "tokens")`` as ``cases[3].tokens``."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in place]
    return "".join(parts).lstrip(".") or None
