"""From a configuration to validations: on this node, under torchrun, or on the nodes of a Ray cluster."""

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from msgspec import Struct, structs

from tuner.consultation.bounds import expect_trainer_modelled
from tuner.consultation.consult import consult, model_config
from tuner.consultation.premises import Premises
from tuner.errors import InputError, UnsupportedError
from tuner.inputs.yaml_file import read_text
from tuner.language import _
from tuner.render.input_notes import project_options
from tuner.render.progress import progress_on
from tuner.validate.children import here
from tuner.validate.children.call import Setup
from tuner.validate.children.devices import wait_for_memory
from tuner.validate.nodes import torchrun
from tuner.validate.nodes.ray_tasks import on_ray
from tuner.validate.parts import ValidationPart
from tuner.validate.plans import PartPlan, Progress, plan, workers
from tuner.validate.report.schema import ValidationFile
from tuner.validate.run import Run
from tuner.validate.session import Options, Subject


class Request(Struct, frozen=True, kw_only=True):
    """What the command line asks for; it travels to other nodes as it is."""

    config: str
    content: str | None = None  # of the configuration, where other nodes may not have the file
    overrides: tuple[str, ...]
    premises: Premises
    budget_s: float
    parts: tuple[ValidationPart, ...]
    processes: int | None
    memory_limit_bytes: int | None
    device: str
    verbose: bool
    turn: int = 0  # of several requests of one launch
    seconds_alone: bool = False  # of a plan's setting: no recommendation is tried, no bytes are tried apart


class CannotRunError(InputError):
    """Something that every part needs is missing; ``plans`` is what would run."""

    def __init__(self, missing: Sequence[str], plans: tuple[PartPlan, ...]) -> None:
        super().__init__(_("nothing can be validated here: {missing}").format(missing="; ".join(missing)))
        self.plans = plans


def on_all_nodes(request: Request, ray: str | None) -> tuple[ValidationFile, ...]:
    """One report for each kind of node; none where another node's process prints them.

    Raises:
        TunerError: something in the input cannot be used, or nothing can run here.
    """
    if ray is not None:
        progress_on(sys.stderr).warn(
            _("validate: one task for each node of the Ray cluster at {ray}").format(ray=ray)
        )
        sent = structs.replace(request, content=read_text(Path(request.config)))
        return on_ray(ray, answer, sent, device=request.device, wait_s=request.budget_s)
    launch = torchrun.launched(os.environ)
    if launch is None:
        return (on_this_node(request, progress_on(sys.stderr)),)
    if launch.local_rank > 0:
        return ()
    file = on_this_node(request, progress_on(sys.stderr))
    return torchrun.gathered(replace(launch, turn=request.turn), file, wait_s=request.budget_s)


def answer(request: Request) -> str:
    """The JSON of a validation, as a task on another node."""
    assert request.content is not None
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / (Path(request.config).name.strip("-") or "config.yaml")
        copy.write_text(request.content, encoding="utf-8")
        file = on_this_node(
            structs.replace(request, config=str(copy)), progress_on(sys.stderr), source=request.config
        )
    return file.model_dump_json(by_alias=True)


def on_this_node(request: Request, progress: Progress, *, source: str | None = None) -> ValidationFile:
    """Advise, run the parts, compare.

    Args:
        request: what is asked for.
        progress: told what is running.
        source: the configuration's name, where the request has a copy.

    Raises:
        CannotRunError: torch, triton or a GPU is missing.
        TunerError: something in the input cannot be used.
    """
    began = time.monotonic()
    advice = consult(request.config, request.overrides, request.premises)
    if advice.advice.workload.rollout is None:
        raise UnsupportedError(
            _("jobs of fine-tuning are not validated"),
            hint=_("tuner advise judges them; tuner validate runs pieces of a job that generates"),
        )
    expect_trainer_modelled(advice.advice.workload, _("tuner advise judges its rollout"))
    judged = advice.advice
    if request.seconds_alone:
        judged = structs.replace(judged, recommendations=())
    subject = Subject(
        source=source or request.config,
        overrides=tuple(map(advice.settings.shown_override, request.overrides)),
        workload=judged.workload,
        advice=judged,
        model_config=model_config(advice.loaded, request.premises),
    )
    setup = Setup(
        device=request.device,
        memory_limit_bytes=request.memory_limit_bytes,
        log=_log(progress) if request.verbose else None,
    )
    node = here.look(setup, workers())
    options = Options(
        device=request.device,
        processes=_processes(request, node, subject),
        budget_s=request.budget_s,
        memory_limit_bytes=request.memory_limit_bytes,
        seconds_alone=request.seconds_alone,
    )
    plans = plan(subject, options, request.parts)
    if node.missing:
        raise CannotRunError(node.missing, plans)
    if request.turn:
        wait_for_memory([device.uuid for device in node.devices[: options.processes]])
    machine = here.machine(node, count=options.processes, profile=subject.workload.cluster.gpu.name)
    run = Run(
        subject=subject,
        options=options,
        machine=machine,
        setup=replace(setup, uuids=tuple(device.uuid for device in node.devices)),
        progress=progress,
        spent_before_s=time.monotonic() - began,
    )
    if advice.from_project:
        run.note(
            _("Settings of the project: {settings}.").format(settings=project_options(advice.from_project))
        )
    for sentence in here.disturbances(node, machine):
        run.note(sentence)
        progress.warn(sentence)
    return run.execute(plans)


def _processes(request: Request, node: here.Here, subject: Subject) -> int:
    """GPUs that take part; those of the configuration where none are here to be counted."""
    cluster = subject.workload.cluster
    if request.device == "cpu":
        return request.processes or 1
    if not node.devices:
        return request.processes or cluster.gpus_per_node
    if request.processes is not None and request.processes > len(node.devices):
        raise InputError(
            _("--nproc {processes} asks for more GPUs than the {devices} of this node").format(
                processes=request.processes, devices=len(node.devices)
            )
        )
    return request.processes or min(len(node.devices), cluster.gpus)


def _log(progress: Progress) -> Path:
    descriptor, name = tempfile.mkstemp(prefix="tuner-validate-", suffix=".log")
    os.close(descriptor)
    progress.warn(_("Output and tracebacks of what is run: {name}").format(name=name))
    return Path(name)
