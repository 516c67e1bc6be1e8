"""The releases of NeMo-RL whose example configurations travel with the program, and what each asks for.

Source: NeMo-RL v0.5.0, v0.6.0 and v0.7.0 ``pyproject.toml`` (``vllm``, ``torch``).
"""

from types import MappingProxyType

from tuner.trainers.bundled_releases import BundledReleases

RELEASES = BundledReleases(trainer="NeMo-RL", versions=("0.5.0", "0.6.0", "0.7.0"))

#: Each release pins one version.
VLLM = MappingProxyType({"0.5.0": "0.11.2", "0.6.0": "0.17.1", "0.7.0": "0.20.0"})
TORCH = MappingProxyType({"0.5.0": "2.9.0", "0.6.0": "2.10.0", "0.7.0": "2.11.0"})
