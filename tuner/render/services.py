"""The reward model and the teachers among the premises: which model, on whose GPUs, by what."""

from collections.abc import Iterator

from tuner.counted import counted
from tuner.language import N_, _
from tuner.render.numbers import parameters
from tuner.serving.names import NAMES
from tuner.workload import Service, ServiceRole, Workload

_LABELS = {ServiceRole.REWARD: N_("reward"), ServiceRole.TEACHER: N_("teacher")}


def service_rows(workload: Workload) -> Iterator[tuple[str, str]]:
    """A label and a line for each service of a job."""
    for service in workload.services:
        text = _("{model}, {place}").format(model=_model(service), place=_place(service))
        yield _(_LABELS[service.role]), text


def _model(service: Service) -> str:
    if service.model is None:
        return service.name or _("no model is named")
    return _("{model}, {parameters} parameters").format(
        model=service.model.name, parameters=parameters(service.model.parameters)
    )


def _place(service: Service) -> str:
    if not service.shares_gpus:
        return _("on {gpus} of its own, which the phases do not show").format(
            gpus=counted(service.gpus, "GPU")
        )
    if service.left_out:
        return _("on these GPUs and NOT COUNTED: its architecture is not known; give --reward-model NAME")
    return _("on these GPUs, {runner}").format(runner=_runner(service))


def _runner(service: Service) -> str:
    server = service.server
    if server is None:
        return _("run by the trainer's engine")
    rest = _("asleep outside the phase reward") if server.frees_memory else _("never asleep")
    return _("served by {engine} with a memory fraction of {memory_fraction:.2f}, {rest}").format(
        engine=NAMES[server.engine], memory_fraction=server.memory_fraction, rest=rest
    )
