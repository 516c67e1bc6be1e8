"""A validation on every node of a Ray cluster, one task each."""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

from tuner.errors import InputError, TunerError
from tuner.extras import install
from tuner.language import _
from tuner.validate.nodes.merged_reports import GRACE_S, merged
from tuner.validate.report.schema import ValidationFile


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
            raise InputError(_("no node of the Ray cluster has a GPU"), hint=_("--device cpu tries the flow"))
        tasks = [_submitted(ray, node, function, request, device) for node in nodes]
        names = [str(node["NodeManagerAddress"]) for node in nodes]
        texts, silent = _received(ray, dict(zip(tasks, names, strict=True)), wait_s + GRACE_S)
    finally:
        ray.shutdown()
    if not texts:
        raise InputError(_("no node of the Ray cluster gave a report; {silent}").format(silent=silent[0]))
    return merged([ValidationFile.model_validate_json(text) for text in texts], silent)


def _ray(address: str) -> Any:
    try:
        ray = import_module("ray")
    except ImportError:
        raise InputError(_("--ray needs Ray, which is not installed"), hint=install("ray")) from None
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError, RuntimeError) as error:
        first = next(iter(str(error).splitlines()), "")
        raise InputError(
            _("no Ray cluster is reached at {address!r}: {first}").format(address=address, first=first)
        ) from None
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
    reasons = [
        _("node {tasks}: {error}").format(tasks=tasks[task], error=error)
        for task, (_text, error) in answers.items()
        if error
    ]
    reasons += [_("node {tasks}: its GPUs were not free in time").format(tasks=tasks[task]) for task in late]
    return [text for text, _ in answers.values() if text], reasons


def _result(ray: Any, task: Any) -> tuple[str, str]:
    try:
        text, error = ray.get(task)
    except ray.exceptions.RayError as failure:
        lines: Iterator[str] = (line for line in reversed(str(failure).splitlines()) if line.strip())
        return "", next(lines, type(failure).__name__)
    return str(text), str(error)
