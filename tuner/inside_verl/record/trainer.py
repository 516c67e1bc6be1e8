"""The process that starts the steps: its configuration when it begins to log, its metrics after every step.

Sources: verl 0.5.0 to 0.9.1 ``utils/tracking.py`` (``Tracking``), made by ``trainer/ppo/ray_trainer.py``,
``trainer/ppo/v1/trainer_base.py`` and ``trainer/sft_trainer.py`` with the resolved configuration.
"""

import inspect
import math
from functools import wraps
from pathlib import Path
from typing import Any

from tuner.inputs.log.metrics import LARGEST, LONGEST_NAME
from tuner.inputs.record.form import CONFIG, TRAINER, Step
from tuner.inside_verl.record.configuration import write_configuration
from tuner.inside_verl.record.process import recorder
from tuner.inside_verl.record.writer import RecordWriter, this_process

_writers: dict[Path, RecordWriter] = {}  # of this process, by the folder: one trainer logs to one


def starting(original: Any) -> Any:
    """A ``Tracking.__init__`` that also writes the configuration it is given."""
    signature = inspect.signature(original)

    @wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        given = signature.bind(self, *args, **kwargs).arguments
        recorder().guard.run(lambda: _start(given.get("config")))

    return init


def logging_steps(original: Any) -> Any:
    """A ``Tracking.log`` that also records the metrics."""
    signature = inspect.signature(original)

    @wraps(original)
    def log(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs).arguments
        recorder().guard.run(lambda: _log(given.get("data"), given.get("step")))
        return original(self, *args, **kwargs)

    return log


def _start(config: Any) -> None:
    folder = recorder().folder
    tree: dict[str, Any] = config if isinstance(config, dict) else {}
    section = tree.get("trainer")
    trainer: dict[str, Any] = section if isinstance(section, dict) else {}
    per_node, nodes = (_count(trainer.get(name)) for name in ("n_gpus_per_node", "nnodes"))
    _writers[folder] = RecordWriter(folder, TRAINER, 0)
    _writers[folder].write(
        this_process(TRAINER, 0, per_node * nodes, gpus_per_node=per_node or None, card=None)
    )
    if tree:
        write_configuration(folder / CONFIG, tree)


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _log(data: Any, step: Any) -> None:
    writer = _writers.get(recorder().folder)
    if writer is None or not isinstance(step, int) or step < 0:
        return
    metrics = {}
    for name, value in dict(data).items():
        number = _number(value)
        if number is not None and isinstance(name, str) and len(name) <= LONGEST_NAME:
            metrics[name] = number
    if metrics:
        writer.write(Step(step=step, metrics=metrics))


def _number(value: Any) -> float | None:
    """A metric as a number: of Python, of NumPy or in a tensor; None of text, and of what is not finite."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) and abs(number) <= LARGEST else None
