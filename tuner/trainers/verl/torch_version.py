"""The torch that a job runs, as far as the files around it or its rollout engine say.

What the files name comes first, and of theirs the newest, as of any package; else vLLM brings the one torch
that it asks for. Other engines' are not looked at.

Source: metadata of vLLM's wheels, 0.5.4 to 0.24.0 (``torch==``).
"""

from msgspec.structs import replace

from tuner.inputs.settings import Settings
from tuner.versions import at_least, is_version
from tuner.workload import Rollout, RolloutEngine, Workload

#: The first version of vLLM that asks for a torch, the newest first.
_OF_VLLM = (
    ("0.20.0", "2.11.0"),
    ("0.17.0", "2.10.0"),
    ("0.14.0", "2.9.1"),
    ("0.11.1", "2.9.0"),
    ("0.10.2", "2.8.0"),
    ("0.10.0", "2.7.1"),
    ("0.9.0", "2.7.0"),
    ("0.8.0", "2.6.0"),
    ("0.7.3", "2.5.1"),
)

#: The newest version of vLLM that asks for a torch, and for no other one.
_NEWEST_WITH = {
    "2.4.0": "0.6.3",
    "2.5.1": "0.7.3",
    "2.6.0": "0.8.5",
    "2.7.0": "0.9.2",
    "2.7.1": "0.10.1",
    "2.8.0": "0.11.0",
    "2.9.0": "0.13.0",
    "2.9.1": "0.16.0",
    "2.10.0": "0.19.1",
}


def with_torch(workload: Workload, settings: Settings) -> Workload:
    """The workload whose engines know their torch.

    Args:
        workload: without it.
        settings: of the job, which tell what the files around it name.
    """
    torch = torch_of(settings, workload.rollout)
    reference, critic = workload.reference, workload.critic
    return replace(
        workload,
        actor=replace(workload.actor, engine=replace(workload.actor.engine, torch=torch)),
        reference=None
        if reference is None
        else replace(reference, engine=replace(reference.engine, torch=torch)),
        critic=None if critic is None else replace(critic, engine=replace(critic.engine, torch=torch)),
    )


def torch_of(settings: Settings, rollout: Rollout | None) -> str:
    """The version of torch; empty where nothing says it.

    Args:
        settings: of the job.
        rollout: its engine, which has a version; None where nothing is generated.
    """
    newest = settings.newest_required
    named = None if newest is None else newest("torch")
    if named:
        return named
    if rollout is not None and rollout.engine is RolloutEngine.VLLM and is_version(rollout.engine_version):
        return torch_of_vllm(rollout.engine_version)
    return ""


def torch_of_vllm(version: str) -> str:
    """The torch that a version of vLLM asks for; empty of one that is older than those looked at."""
    return next((torch for since, torch in _OF_VLLM if at_least(version, since)), "")


def newest_vllm_with(torch: str) -> str:
    """The newest vLLM that goes with a version of torch; empty of a torch that none of them asks for.

    Args:
        torch: a version, or a series such as ``2.6``.
    """
    of_series = [newest for one, newest in _NEWEST_WITH.items() if one.startswith(f"{torch}.")]
    return _NEWEST_WITH.get(torch, of_series[-1] if of_series else "")


def oldest_vllm_with(torch: str) -> str:
    """The oldest vLLM that goes with a version of torch, or with a series; empty where nobody looked."""
    of_series = [since for since, one in _OF_VLLM if one == torch or one.startswith(f"{torch}.")]
    return of_series[-1] if of_series else ""
