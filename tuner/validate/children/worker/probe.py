"""What torch sees of this machine."""

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from platform import python_version

import torch

from tuner.validate.children.devices import Device, DevicesReport
from tuner.validate.children.worker.entry import device_id

_PACKAGES = ("triton", "transformers", "liger_kernel", "vllm")
_VERL_ENGINES = ("workers/engine", "workers/fsdp_workers.py")  # one of them in every release


def probe(*, device: str) -> DevicesReport:
    """Devices and versions; ``device`` is what asks, always the CPU."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return DevicesReport(
        devices=tuple(_visible_device(index) for index in range(count)),
        built_for_cuda=torch.version.cuda is not None or torch.version.hip is not None,
        versions=_versions(),
    )


def _visible_device(index: int) -> Device:
    properties = torch.cuda.get_device_properties(index)
    return Device(name=properties.name, total_bytes=properties.total_memory, uuid=device_id(index))


def _versions() -> dict[str, str]:
    cuda = torch.version.cuda
    packages = {package: _version(package) for package in _PACKAGES}
    versions = {
        "CUDA": cuda,
        "torch": str(torch.__version__),
        **packages,
        "verl": _verl(),
        "python": python_version(),
    }
    return {name: text for name, text in versions.items() if text is not None}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _verl() -> str | None:
    """Its version where its engines are there; a tree without them runs nothing."""
    specification = find_spec("verl")
    folders = [] if specification is None else list(specification.submodule_search_locations or ())
    there = any((Path(folder) / engine).exists() for folder in folders for engine in _VERL_ENGINES)
    return _version("verl") if there else None
