"""``--write-profile``: a hardware profile with what was measured, which ``tuner advise --gpu FILE`` reads."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuner.errors import InputError, Location
from tuner.evidence import Evidence
from tuner.gpus import find_gpu
from tuner.hardware import Gpu
from tuner.language import _
from tuner.timing.corrections import OperatorFamily
from tuner.units import GIGA, MIB, TERA
from tuner.validate.report.schema import ValidationFile
from tuner.writing import write_output

#: The first line of what this module writes; a file that begins with another is not overwritten.
MARK = "# Written by tuner validate --write-profile, which overwrites it."

TOTAL = "memory.total"  # the measurement of what the driver reports
#: Names of the measurements that a profile keeps, by field of :class:`~tuner.hardware.MeasuredGpu`.
PROFILE_FIGURES = {
    "usable_bytes": "memory.usable",
    "context_bytes": "process.context",
    "memory_bytes_per_s": "rate.memory",
    "dense_bf16_flop_per_s": "rate.product",
    "host_bytes_per_s": "rate.host",
    "link_bytes_per_s": "rate.link",
    **{family.value: f"factor.{family.name.lower()}" for family in OperatorFamily},
}

#: Of a factor that was measured before: clocks and temperature move it.
FACTOR_TOLERANCE = 0.1

_SUFFIXES = (".yaml", ".yml")
# Keys and units of a profile, see :mod:`tuner.gpus`, by field of the GPU and of what was measured.
_RATES = {
    "memory_bytes_per_s": ("memory_gb_per_s", GIGA),
    "dense_bf16_flop_per_s": ("dense_bf16_tflop_per_s", TERA),
    "dense_fp8_flop_per_s": ("dense_fp8_tflop_per_s", TERA),
    "link_bytes_per_s": ("link_gb_per_s", GIGA),
    "host_bytes_per_s": ("host_gb_per_s", GIGA),
}
_MEASURED = {
    **_RATES,
    "usable_bytes": ("usable_mib", MIB),
    "context_bytes": ("context_mib", MIB),
    **{family.value: (family.value, 1) for family in OperatorFamily},
}
_DIGITS = 7  # that count, more than repeat


def profile_file(name: str) -> Path:
    """The file that a profile of this name is written to.

    Args:
        name: of the file, ``.yaml`` added where it has no such ending; in the current folder unless it has
            one.

    Raises:
        InputError: the file cannot be written, or holds something else.
    """
    file = Path(name if name.lower().endswith(_SUFFIXES) else f"{name}.yaml")
    _expect_own(file)
    return file


def write_profile(name: str, report: ValidationFile, *, base: Gpu | None = None) -> Path:
    """Write what a profile says of a card, with what was measured on it.

    Args:
        name: see :func:`profile_file`.
        report: of a validation whose machine part ran.
        base: the card's profile; None: the one of the name that the report has.

    Returns:
        The file.

    Raises:
        InputError: nothing of a profile was measured, no profile describes the card, or the file cannot be
            written or holds something else.
    """
    file = profile_file(name)
    import yaml

    content = profile(report, base=base or find_gpu(report.validation.machine.profile))
    text = f"{MARK}\n{yaml.safe_dump(content, sort_keys=False, allow_unicode=True)}"
    write_output(file, [text])
    return file


def profile(report: ValidationFile, *, base: Gpu) -> dict[str, Any]:
    """The content of the file, see :mod:`tuner.gpus`.

    Raises:
        InputError: nothing of a profile was measured, or no profile describes the card.
    """
    if base.evidence is Evidence.HEURISTIC:
        raise InputError(
            _("--write-profile needs the profile of the card that was measured; none was named"),
            hint=_("give --gpu NAME"),
        )
    measured = _measured_fields(report)
    if not measured:
        raise InputError(
            _("nothing was measured that a profile holds"),
            hint=_("--write-profile needs the part machine, on a GPU"),
        )
    total = _figures(report).get(TOTAL, base.memory_bytes)
    return {
        "names": [base.name],
        "vendor": base.vendor,
        "architecture": base.architecture,
        "memory_mib": round(total / MIB),
        **_scaled({field: getattr(base, field) for field in _RATES}),
        **({} if base.per_node is None else {"per_node": base.per_node}),
        "source": base.source,
        "measured": {
            "date": report.validation.date,
            "versions": dict(report.validation.machine.versions),
            **_scaled(measured),
        },
    }


def _figures(report: ValidationFile) -> dict[str, float]:
    return {figure.name: figure.measured for part in report.validation.parts for figure in part.measurements}


def _measured_fields(report: ValidationFile) -> dict[str, float]:
    figures = _figures(report)
    return {field: figures[name] for field, name in PROFILE_FIGURES.items() if figures.get(name)}


def _scaled(values: Mapping[str, float | None]) -> dict[str, float]:
    """By the keys of a profile, in their units; whole numbers where they are."""
    content = {}
    for field, (key, unit) in _MEASURED.items():
        value = values.get(field)
        if value is not None:
            scaled = float(f"{value / unit:.{_DIGITS}g}")
            content[key] = int(scaled) if scaled == int(scaled) else scaled
    return content


def _expect_own(file: Path) -> None:
    """A folder that exists, and in it one of our files or none."""
    try:
        with file.open(encoding="utf-8", errors="replace") as stream:
            first = stream.readline(len(MARK) + 1)
    except FileNotFoundError as error:
        if not file.absolute().parent.is_dir():
            raise _not_written(file, error) from None
        return
    except OSError as error:
        raise _not_written(file, error) from None
    if first.rstrip("\n") != MARK:
        raise InputError(
            _("the file exists and was not written by tuner validate"),
            location=Location(source=str(file), line=1),
            hint=_("give --write-profile another name, or remove it"),
        )


def _not_written(file: Path, error: OSError) -> InputError:
    return InputError(
        _("the profile cannot be written: {strerror}").format(strerror=error.strerror),
        location=Location(source=str(file)),
    )
