"""GPUs: bundled profiles by name, profiles in files, and the GPU of this machine.

A profile states what datasheets and drivers do, in their units, which are part of the keys:

``memory_mib``
    total memory as the driver reports it (``nvidia-smi``, ``rocm-smi``, ``npu-smi``); CUDA itself
    hands out about half a GiB less, which is in ``measured`` where it is known: read off a card, or
    the least total capacity in published out-of-memory lines.
``memory_gb_per_s``, ``link_gb_per_s``, ``host_gb_per_s``
    bandwidth of the card's own memory, to other cards of the machine, and to the host. The
    latter two are per direction. Cards that bridges join in pairs count with PCIe, since a ring
    over more than two of them crosses it.
``network_gb_per_s``
    each card's share of the network between machines, per direction; 50 where a profile says nothing
``storage_gb_per_s``
    what a machine with such cards writes to the storage of checkpoints; 2 where a profile says nothing
``dense_bf16_tflop_per_s``, ``dense_fp8_tflop_per_s``
    peaks with FP32 accumulation, without sparsity.
``dense_fp16_tflop_per_s``
    in place of the first of them, of a card that has no bfloat16
``per_node``
    the most that one machine has, of a card that comes on boards of a fixed number
``measured``
    what one such card really gave, with ``date`` and ``versions``: ``usable_mib``, ``context_mib``, rates
    under the same names, and factors by family of operators, see :class:`~tuner.hardware.MeasuredGpu`.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tuner import resources, shipped
from tuner.errors import InputError, Location
from tuner.evidence import Evidence
from tuner.files import is_there
from tuner.hardware import Gpu, MeasuredGpu
from tuner.language import _
from tuner.units import GIB, GIGA, MIB, TERA

_ASSUMED = "h100-sxm"  # the card whose rates stand in for an unknown one
ASSUMED_GB = 80
_ASSUMED_NAME = f"assumed {ASSUMED_GB} GB GPU"

_Number = (int, float)
_RATES: resources.Kinds = {
    "memory_gb_per_s": _Number,
    "link_gb_per_s": _Number,
    "host_gb_per_s": _Number,
}
_ARITHMETIC: resources.Kinds = {"dense_bf16_tflop_per_s": _Number}
_HALF = "dense_fp16_tflop_per_s"
_REQUIRED: resources.Kinds = {
    "names": list,
    "vendor": str,
    "architecture": str,
    "memory_mib": int,
    **_RATES,
    "source": str,
}
_OPTIONAL: resources.Kinds = {
    "device_names": list,
    **_ARITHMETIC,
    _HALF: _Number,
    "dense_fp8_tflop_per_s": _Number,
    "network_gb_per_s": _Number,
    "storage_gb_per_s": _Number,
    "per_node": int,
    "measured": dict,
}
_FACTORS: resources.Kinds = {
    "products_factor": _Number,
    "attention_factor": _Number,
    "elementwise_factor": _Number,
    "head_factor": _Number,
    "host_factor": _Number,
    "engine_factor": _Number,
    "engine_sequence_factor": _Number,
}
_MEASURED: resources.Kinds = {
    "usable_mib": _Number,
    "context_mib": _Number,
    **_RATES,
    **_ARITHMETIC,
    **_FACTORS,
}
_SUFFIXES = (".yaml", ".yml")
_AMOUNT = re.compile(r"(?P<number>\d{1,9}(?:\.\d{1,6})?) ?(?P<unit>[GgMm])(?:i?[Bb])?")
_LARGEST_BYTES = 10_000 * GIB
_COUNTED = re.compile(r"(?P<count>[1-9][0-9]{0,8}) ?[xX] ?(?P<name>.+)")


def find_gpu(name: str | None) -> Gpu:
    """The GPU of a name or a file, of this machine, or an assumed one.

    Args:
        name: a profile's name or the driver's name for the card, in any case, or a profile's file, which
            ends in ``.yaml``; None: the first GPU that the driver of this machine reports, else an assumed
            card of 80 GB, whose ``evidence`` then is ``HEURISTIC``.

    Raises:
        InputError: no profile has this name, the file holds none, or none describes this machine's GPU.
    """
    if name is not None:
        return _read(Path(name)) if name.lower().endswith(_SUFFIXES) else _named(name)
    local = _local_gpu()
    return local or replace(_named(_ASSUMED), name=_ASSUMED_NAME, evidence=Evidence.HEURISTIC)


def is_assumed(gpu: Gpu) -> bool:
    """Whether it is the card that is taken where nothing names one."""
    return gpu.name == _ASSUMED_NAME


def profile_named(name: str) -> Gpu | None:
    """The bundled GPU of a name, as :func:`find_gpu` takes it; None where no profile has it."""
    return _find(name, shipped.profiles())


def counted(text: str) -> tuple[int | None, str]:
    """The GPUs of one node and the name of the card in ``8xh100-sxm``; no number where none stands there."""
    match = _COUNTED.fullmatch(text.strip())
    if match is None or is_there(text, Path.is_file):
        return None, text
    return int(match["count"]), match["name"]


def namesakes(name: str) -> tuple[str, ...]:
    """The other profiles that a short name may mean: ``h100`` is ``h100-sxm``, ``h100-nvl`` or ``h100-pcie``.

    Args:
        name: a name that :func:`find_gpu` takes.
    """
    return _namesakes(name, shipped.profiles())


@lru_cache(maxsize=64)  # many configurations are for the same card
def _namesakes(name: str, _profiles: Path) -> tuple[str, ...]:
    wanted = _normal(name)
    parts = set(wanted.split("-"))
    others = []
    for file in _files():
        text = _normal(file.read_text(encoding="utf-8"))
        if not all(part in text for part in parts):  # one file in a few is left to be parsed
            continue
        content = _content(file)
        known = [_normal(known) for known in content["names"]]
        if wanted in (known[0], *(_normal(device) for device in content.get("device_names", []))):
            return ()
        if wanted not in known and any(parts < set(other.split("-")) for other in known):
            others.append(known[0])
    return tuple(others)


def nearest_gpu(size: int) -> Gpu:
    """The bundled card whose memory is nearest to a size in bytes; of several that with most arithmetic."""
    cards = map(_read, _files())
    return min(cards, key=lambda gpu: (_distance(gpu, size), -gpu.dense_bf16_flop_per_s, gpu.name))


def _distance(gpu: Gpu, size: int) -> int:
    """By how many GiB a card's memory differs; what the driver keeps for itself makes no other card."""
    return round(abs(gpu.memory_bytes - size) / GIB)


def memory_bytes_of(text: str) -> int:
    """A card's memory from text such as ``24GiB``; GB and G mean GiB, as makers of cards use them.

    Raises:
        InputError: not an amount with a unit that any card may have.
    """
    match = _AMOUNT.fullmatch(text.strip())
    size = 0.0 if match is None else float(match["number"]) * (GIB if match["unit"] in "Gg" else MIB)
    if not GIB <= size <= _LARGEST_BYTES:
        raise InputError(
            _("{text!r} is no memory of a card").format(text=text), hint=_("write it as 24GiB or 24GB")
        )
    return round(size)


def gpu_names() -> tuple[str, ...]:
    """The first name of every bundled profile, sorted."""
    return tuple(sorted(_read(file).name for file in _files()))


def _named(name: str) -> Gpu:
    gpu = _find(name, shipped.profiles())
    if gpu is not None:
        return gpu
    from difflib import get_close_matches

    names = gpu_names()
    near = get_close_matches(_normal(name), names, n=3)
    suggestion = _("; near it: {near}").format(near=", ".join(near)) if near else ""
    raise InputError(
        _("no GPU {name!r} is known{suggestion}").format(name=name, suggestion=suggestion),
        hint=_("--gpu takes the file of a profile or one of {names}").format(names=", ".join(names)),
    )


@lru_cache(maxsize=64)  # many configurations are for the same card
def _find(name: str, _profiles: Path) -> Gpu | None:
    # Looking through the texts first leaves one file to parse instead of all.
    wanted = _normal(name)
    for file in _files(likely=wanted):
        if wanted in _normal(file.read_text(encoding="utf-8")):
            content = _content(file)
            listed = [*content["names"], *content.get("device_names", [])]
            if wanted in (_normal(known) for known in listed):
                return _read(file)
    return None


def _normal(name: str) -> str:
    """A GPU's name without what its spelling may differ in: ``NVIDIA H100 PCIe`` is ``h100-pcie``."""
    return "-".join(name.strip().lower().removeprefix("nvidia ").replace("_", " ").split())


def _files(likely: str = "") -> Iterator[Path]:
    return shipped.profiles_of("gpus", likely=likely)


def _content(file: Path) -> dict[str, Any]:
    content = resources.read_profile(file, required=_REQUIRED, optional=_OPTIONAL)
    if not content.keys() & {*_ARITHMETIC, _HALF}:
        (key,) = _ARITHMETIC
        raise InputError(_("is missing"), location=Location(source=str(file)), key=key)
    for key in ("names", "device_names"):
        if not all(isinstance(name, str) and name for name in content.get(key, [])):
            location = Location(source=str(file), line=resources.line_of(file, (key,)))
            raise InputError(_("must be names, each a text of its own"), location=location, key=key)
    return content


def _read(file: Path) -> Gpu:
    content = _content(file)
    fp8, bfloat16 = content.get("dense_fp8_tflop_per_s"), "dense_bf16_tflop_per_s" in content
    measured, network = content.get("measured"), content.get("network_gb_per_s")
    storage = content.get("storage_gb_per_s")
    return Gpu(
        name=content["names"][0],
        vendor=content["vendor"],
        architecture=content["architecture"],
        memory_bytes=content["memory_mib"] * MIB,
        memory_bytes_per_s=content["memory_gb_per_s"] * GIGA,
        dense_bf16_flop_per_s=content["dense_bf16_tflop_per_s" if bfloat16 else _HALF] * TERA,
        bfloat16=bfloat16,
        dense_fp8_flop_per_s=None if fp8 is None else fp8 * TERA,
        link_bytes_per_s=content["link_gb_per_s"] * GIGA,
        host_bytes_per_s=content["host_gb_per_s"] * GIGA,
        network_bytes_per_s=None if network is None else network * GIGA,
        storage_bytes_per_s=None if storage is None else storage * GIGA,
        per_node=content.get("per_node"),
        source=content["source"],
        measured=None if measured is None else _measured_gpu(measured, file),
    )


def _measured_gpu(content: Any, file: Path) -> MeasuredGpu:
    required: resources.Kinds = {"date": str, "versions": dict}
    resources.check_keys(content, file=file, required=required, optional=_MEASURED, section=("measured",))

    def scaled(key: str, unit: int) -> float | None:
        return content[key] * unit if key in content else None

    usable, context = scaled("usable_mib", MIB), scaled("context_mib", MIB)
    return MeasuredGpu(
        date=content["date"],
        versions=tuple((str(what), str(version)) for what, version in content["versions"].items()),
        usable_bytes=None if usable is None else round(usable),
        context_bytes=None if context is None else round(context),
        memory_bytes_per_s=scaled("memory_gb_per_s", GIGA),
        dense_bf16_flop_per_s=scaled("dense_bf16_tflop_per_s", TERA),
        link_bytes_per_s=scaled("link_gb_per_s", GIGA),
        host_bytes_per_s=scaled("host_gb_per_s", GIGA),
        **{key: content.get(key) for key in _FACTORS},
    )


def _local_gpu() -> Gpu | None:
    """This machine's first NVIDIA GPU with the memory its driver reports, None without a driver."""
    device = _first_device()
    if device is None:
        return None
    name, memory_bytes = device
    gpu = _find(name, shipped.profiles())
    if gpu is None:
        raise InputError(
            _("this machine has a GPU named {name!r}, which no profile describes").format(name=name),
            hint=_("give --gpu NAME with the nearest of {names}").format(names=", ".join(gpu_names())),
        )
    return gpu if memory_bytes is None else replace(gpu, memory_bytes=memory_bytes)


def _first_device() -> tuple[str, int | None] | None:
    """Name and total memory of the first device that NVML lists."""
    from tuner.nvml import started  # asked where no card is named

    with started() as nvml:
        if nvml is None:
            return None
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(0)
            return str(nvml.nvmlDeviceGetName(handle)), _total_memory(nvml, handle)
        except nvml.NVMLError:  # no device or no permission: as if there were no GPU
            return None


def _total_memory(nvml: Any, handle: Any) -> int | None:
    try:
        return int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
    except nvml.NVMLError:  # cards that share the host's memory report none
        return None
