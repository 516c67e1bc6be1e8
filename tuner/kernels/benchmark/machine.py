"""Where and with what a benchmark runs."""

import platform
from importlib import metadata

import torch

import tuner
from tuner.kernels.benchmark.report import BenchmarkMachine

_PACKAGES = (
    "triton",
    "verl",
    "liger-kernel",
    "liger-cute-kernels",
    "nvidia-cutlass-dsl",
    "cut-cross-entropy",
)


def package_version(package: str) -> str | None:
    """A package's version as its metadata has it; None where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _versions() -> dict[str, str]:
    versions = {package: version for package in _PACKAGES if (version := package_version(package))}
    # torch's own has the CUDA that it was built for, which its metadata may leave out.
    own = {"python": platform.python_version(), "tuner": tuner.__version__, "torch": torch.__version__}
    return own | {package: version for package, version in versions.items() if package not in own}


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


def describe_machine(device: str) -> BenchmarkMachine:
    """Describe the machine: its device, driver, CUDA and the packages that take part."""
    cuda = device.startswith("cuda")
    return BenchmarkMachine(
        device=torch.cuda.get_device_name(device) if cuda else "CPU",
        driver=_driver() if cuda else None,
        cuda=torch.version.cuda if cuda else None,
        versions=_versions(),
    )
