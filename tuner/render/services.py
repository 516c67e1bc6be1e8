"""The reward model and the teachers among the premises: which model, on whose GPUs, by what."""

from collections.abc import Iterator

from tuner.counted import counted
from tuner.render.numbers import parameters
from tuner.serving.names import NAMES
from tuner.workload import Service, ServiceRole, Workload

_LABELS = {ServiceRole.REWARD: "reward", ServiceRole.TEACHER: "teacher"}


def service_rows(workload: Workload) -> Iterator[tuple[str, str]]:
    """A label and a line for each service of a job."""
    for service in workload.services:
        yield _LABELS[service.role], f"{_model(service)}, {_place(service)}"


def _model(service: Service) -> str:
    if service.model is None:
        return service.name or "no model is named"
    return f"{service.model.name}, {parameters(service.model.parameters)} parameters"


def _place(service: Service) -> str:
    if not service.shares_gpus:
        return f"on {counted(service.gpus, 'GPU')} of its own, which the phases do not show"
    if service.left_out:
        return "on these GPUs and NOT COUNTED: its architecture is not known; give --reward-model NAME"
    return f"on these GPUs, {_runner(service)}"


def _runner(service: Service) -> str:
    server = service.server
    if server is None:
        return "run by the trainer's engine"
    rest = "asleep outside the phase reward" if server.frees_memory else "never asleep"
    return f"served by {NAMES[server.engine]} with a memory fraction of {server.memory_fraction:.2f}, {rest}"
