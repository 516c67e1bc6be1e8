"""Memory fractions of the inference engines that serve the teachers of a distillation."""

from msgspec.structs import replace

from tuner.memory.rollout.capacity import built_sequence_bytes, service_problems
from tuner.memory.rollout.kv_cache import kv_bytes_per_token
from tuner.memory.rollout.services import at_service_start, served
from tuner.memory.rollout.share import CacheShare
from tuner.rules.rollout_engine import HUNDREDTHS, least
from tuner.workload import Service, ServiceRole, Workload


def problem(workload: Workload, teacher: Service) -> str | None:
    """Why a teacher's engine does not start, None where it does."""
    alone = replace(workload, services=(teacher,))
    return next(iter(service_problems(alone, ServiceRole.TEACHER)), None)


def at_fraction(teacher: Service, hundredths: int) -> Service:
    """A teacher whose engine has another memory fraction."""
    assert teacher.server is not None
    return replace(teacher, server=replace(teacher.server, memory_fraction=hundredths / 100))


def with_room(workload: Workload, teacher: Service) -> Service | None:
    """A teacher whose engine starts, with the least fraction that never makes it wait for its cache.

    Where no fraction leaves that much, the largest one, if the engine starts with it. On GPUs of its own a
    larger fraction takes nothing from anybody.
    """
    enough = least(HUNDREDTHS, lambda value: _never_waits(workload, at_fraction(teacher, value)))
    raised = at_fraction(teacher, HUNDREDTHS[-1] if enough is None else enough)
    return raised if problem(workload, raised) is None else None


def _never_waits(workload: Workload, teacher: Service) -> bool:
    """Whether the cache, as it is expected, holds all that one scheduling step of a teacher can.

    A teacher reads a sequence and writes one token, so the sequence is gone when its last part is read. Of a
    step only the tokens that it takes are new; at most one sequence was begun before and is carried on.

    Source: verl 0.9.1 ``experimental/teacher_loop/teacher_manager.py`` (``max_tokens: 1``,
    ``prompt_logprobs``); vLLM ``v1/core/sched/scheduler.py`` (``schedule``: the token budget).
    """
    if problem(workload, teacher) is not None:
        return False
    alone = replace(workload, services=(teacher,))
    ((_service, job),) = served(alone)
    step_bytes = job.generator.step_tokens * kv_bytes_per_token(job.model, job.generator)
    return CacheShare(job, at_service_start(alone, teacher)).cache >= step_bytes + built_sequence_bytes(job)
