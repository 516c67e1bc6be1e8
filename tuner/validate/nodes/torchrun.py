"""More than one node: started by torchrun on each, or sent to each as a Ray task."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tuner.errors import InputError, TunerError
from tuner.validate.children import processes
from tuner.validate.report.schema import ValidationFile
from tuner.validate.session import Failed

_SHARE = "tuner.validate.nodes.worker:share"
_REQUIRED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_GRACE_S = 300.0  # for nodes that begin late


@dataclass(frozen=True, kw_only=True)
class Launch:
    """This process among those that torchrun started."""

    node: int
    nodes: int
    local_rank: int  # others than 0 have nothing to do: the first of a node starts its own processes
    address: str
    port: int
    hosted: bool  # torchrun keeps the store; else the first node does


def launched(environment: Mapping[str, str]) -> Launch | None:
    """Read torchrun's variables; None where it has not started this process.

    Raises:
        InputError: one of them is no number.
    """
    if not all(environment.get(name) for name in _REQUIRED):
        return None
    try:
        local = int(environment.get("LOCAL_WORLD_SIZE", "1"))
        return Launch(
            node=int(environment["RANK"]) // local,
            nodes=max(1, int(environment["WORLD_SIZE"]) // local),
            local_rank=int(environment.get("LOCAL_RANK", "0")),
            address=environment["MASTER_ADDR"],
            port=int(environment["MASTER_PORT"]),
            hosted=environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        )
    except (ValueError, ZeroDivisionError) as error:
        raise InputError(
            f"RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE or MASTER_PORT is unusable: {error}",
            hint="torchrun sets these variables; unset them to validate this node alone",
        ) from None


def gathered(launch: Launch, file: ValidationFile, *, wait_s: float) -> tuple[ValidationFile, ...]:
    """Hand this node's report to the first one; there, one report for each kind of node.

    Args:
        launch: this process.
        file: this node's report.
        wait_s: for the slowest node, seconds.

    Returns:
        Nothing on other nodes than the first.
    """
    if launch.nodes == 1:
        return (file,)
    found = processes.run(
        _SHARE,
        (launch, file.model_dump_json(by_alias=True), wait_s + _GRACE_S),
        setup=processes.Setup(device="cpu"),
        timeout_s=wait_s + 2 * _GRACE_S,
    )
    if isinstance(found, Failed):
        raise InputError(f"the nodes' reports could not be gathered: {found.message}")
    if launch.node > 0:
        return ()
    texts = [text for text in found if text is not None]
    files = [ValidationFile.model_validate_json(text) for text in texts]
    silent = [f"node {index}: it did not report in time" for index, text in enumerate(found) if text is None]
    return merged(files, silent)


def merged(files: Sequence[ValidationFile], silent: Sequence[str] = ()) -> tuple[ValidationFile, ...]:
    """One report for each kind of node: the same GPUs, as many, with the same versions.

    The one that stands for its kind is one that refutes something, if any does.

    Args:
        files: one of each node.
        silent: nodes without a report, each with the reason.
    """
    kinds: dict[tuple[object, ...], list[ValidationFile]] = {}
    for file in files:
        found = file.validation.machine
        key = (found.device, found.devices, tuple(sorted(found.versions.items())))
        kinds.setdefault(key, []).append(file)
    missing = tuple(f"No report of {text}." for text in silent)
    return tuple(_for_all(alike, missing) for alike in kinds.values())


def _for_all(alike: list[ValidationFile], missing: tuple[str, ...]) -> ValidationFile:
    refuting = [file for file in alike if file.validation.refuted]
    chosen = (refuting or alike)[0]
    machine = chosen.validation.machine.model_copy(update={"nodes": len(alike)})
    notes = (*chosen.notes, *missing)
    if len(alike) > 1:
        notes += (
            f"{len(alike)} nodes of this kind reported, {len(refuting)} of them refuted something; "
            "the figures are those of one node.",
        )
    return chosen.model_copy(
        update={"notes": notes, "validation": chosen.validation.model_copy(update={"machine": machine})}
    )


def on_ray(
    address: str, function: Callable[[Any], str], request: object, *, device: str, wait_s: float
) -> tuple[ValidationFile, ...]:
    """Call a function on every node of a Ray cluster, one task each; one report for each kind of node.

    Args:
        address: as ``ray.init`` takes it.
        function: of a module that every node has; returns the report's JSON.
        request: its argument, picklable.
        device: cuda: every node that has GPUs, with all of them; cpu: every node, with one CPU.
        wait_s: for the slowest task, seconds.

    Raises:
        InputError: Ray is missing or not reached, or no node gave a report.
    """
    ray = _ray(address)
    try:
        nodes = [node for node in ray.nodes() if node["Alive"] and (device == "cpu" or _gpus(node))]
        if not nodes:
            raise InputError("no node of the Ray cluster has a GPU", hint="--device cpu tries the flow")
        tasks = [_submitted(ray, node, function, request, device) for node in nodes]
        names = [str(node["NodeManagerAddress"]) for node in nodes]
        texts, silent = _received(ray, dict(zip(tasks, names, strict=True)), wait_s + _GRACE_S)
    finally:
        ray.shutdown()
    if not texts:
        raise InputError(f"no node of the Ray cluster gave a report; {silent[0]}")
    return merged([ValidationFile.model_validate_json(text) for text in texts], silent)


def _ray(address: str) -> Any:
    try:
        ray = import_module("ray")
    except ImportError:
        raise InputError("--ray needs Ray, which is not installed", hint="pip install 'tuner[ray]'") from None
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError, RuntimeError) as error:
        first = next(iter(str(error).splitlines()), "")
        raise InputError(f"no Ray cluster is reached at {address!r}: {first}") from None
    return ray


def _gpus(node: Mapping[str, Any]) -> float:
    return float(node["Resources"].get("GPU", 0))


def _submitted(
    ray: Any, node: Mapping[str, Any], function: Callable[[Any], str], request: object, device: str
) -> Any:
    scheduling = import_module("ray.util.scheduling_strategies")
    resources = {"num_cpus": 1} if device == "cpu" else {"num_cpus": 0, "num_gpus": _gpus(node)}
    task = ray.remote(_answer).options(
        **resources,
        max_retries=0,
        scheduling_strategy=scheduling.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
    )
    return task.remote(function, request)


def _answer(function: Callable[[Any], str], request: object) -> tuple[str, str]:
    """On a node: the report and no error, or the error."""
    try:
        return function(request), ""
    except TunerError as error:
        return "", str(error)


def _received(ray: Any, tasks: Mapping[Any, str], wait_s: float) -> tuple[list[str], list[str]]:
    """Reports, and the nodes without one, each with the reason."""
    try:
        done, late = ray.wait(list(tasks), num_returns=len(tasks), timeout=wait_s)
    except KeyboardInterrupt:
        for task in tasks:
            ray.cancel(task, force=True)
        raise
    answers = {task: _result(ray, task) for task in done}
    reasons = [f"node {tasks[task]}: {error}" for task, (_, error) in answers.items() if error]
    reasons += [f"node {tasks[task]}: its GPUs were not free in time" for task in late]
    return [text for text, _ in answers.values() if text], reasons


def _result(ray: Any, task: Any) -> tuple[str, str]:
    try:
        text, error = ray.get(task)
    except ray.exceptions.RayError as failure:
        lines: Iterator[str] = (line for line in reversed(str(failure).splitlines()) if line.strip())
        return "", next(lines, type(failure).__name__)
    return str(text), str(error)
