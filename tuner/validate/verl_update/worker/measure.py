"""One engine of verl in a process of its own: what is put in place there, and what it is asked for."""

import os

from tuner.validate.training.settings import ModelSettings
from tuner.validate.verl_update.settings import EngineUpdate, UpdateWork

_HEAD = "TUNER_HEAD"
_CHANGES_VERL = ("TUNER_SKIP_ZERO_ADVANTAGE", "TUNER_RECORD", "VERL_USE_EXTERNAL_MODULES")


def measure(model: ModelSettings, work: UpdateWork, *, device: str) -> EngineUpdate:
    """Build one engine, ask it for log-probabilities, and run the updates in their order.

    Each update runs once from an emptied cache, which gives its bytes and results, and then for the time. A
    whole one goes first, so that what is compiled and tuned exists.

    Args:
        model: what the engine is built from.
        work: whose head it has, and what is run.
        device: for ``torch.device``.

    Raises:
        ImportError: verl lacks something that it needs.
        RuntimeError: the head is not in place, or a gradient is not finite.
    """
    _choose(ours=work.ours)
    if device == "cpu":
        # Chosen when the kernels are defined, so before anything imports them.
        os.environ.setdefault("TRITON_INTERPRET", "1")
    import torch

    from tuner.validate.verl_update.worker.updates import run

    return run(model, work, torch.device(device))


def _choose(*, ours: bool) -> None:
    """What is put in place in this process, whatever the environment says for a job."""
    for name in _CHANGES_VERL:
        os.environ.pop(name, None)
    os.environ[_HEAD] = "recompute" if ours else "off"
