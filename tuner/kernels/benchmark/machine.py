"""Where and with what a benchmark runs."""

import platform
from importlib import metadata

import torch

import tuner
from tuner.kernels.benchmark.report import Machine

_PACKAGES = (
    "triton",
    "verl",
    "liger-kernel",
    "nvidia-cutlass-dsl",
    "cut-cross-entropy",
)


def package_version(package: str) -> str | None:
    """As its metadata has it; None where there are none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _versions() -> dict[str, str]:
    found = {package: version for package in _PACKAGES if (version := package_version(package))}
    # torch's own has the CUDA that it was built for, which its metadata may leave out.
    own = {"python": platform.python_version(), "tuner": tuner.__version__, "torch": torch.__version__}
    return own | {package: version for package, version in found.items() if package not in own}


def _driver() -> str | None:
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        try:
            return str(pynvml.nvmlSystemGetDriverVersion())
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return None


def describe_machine(device: str) -> Machine:
    """Of the device that is measured."""
    cuda = device.startswith("cuda")
    return Machine(
        device=torch.cuda.get_device_name(device) if cuda else "CPU",
        driver=_driver() if cuda else None,
        cuda=torch.version.cuda if cuda else None,
        versions=_versions(),
    )
