"""One try of the search: a process that runs a single pass, or runs out of memory."""

import torch

from tuner.validate.training.settings import ModelSettings, PassFailed, PassFigures, PassSettings
from tuner.validate.training.worker.measure import measure_passes


def attempt(model: ModelSettings, settings: PassSettings, *, device: str) -> PassFigures:
    """The pass once, AdamW's states there before it, with expandable segments.

    verl switches them on after its first weight sync, so before the first update.

    Raises:
        OutOfMemoryError: it does not fit; every process raises for itself, whoever runs out first.
        RuntimeError: it failed in another way.

    Source: verl 0.9.1 ``workers/engine_workers.py`` (``update_weights``); 0.6.1 ``workers/fsdp_workers.py``.
    """
    if torch.device(device).type == "cuda":
        torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    (result,) = measure_passes(model, (settings,), repetitions=0, device=device)
    if not isinstance(result, PassFailed):
        return result
    raise torch.OutOfMemoryError(result.message) if result.out_of_memory else RuntimeError(result.message)
