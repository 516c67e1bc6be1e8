"""Give a teacher's engine enough memory to start

What it checks
--------------

The memory fraction of the inference engine that serves a teacher holds its weights, but no cache of one sequence of full length.
The proposal is the smallest fraction with which its cache holds all that one step of its scheduler reads.

Why it matters
--------------

The engine starts before the first step, and refuses: "No available memory for the cache blocks", or "max seq len is larger than the maximum number of tokens that can be stored in KV cache".
A teacher has GPUs of its own, so a larger fraction takes nothing from the trainer.

When it does not apply
----------------------

No fraction is enough: then its weights need more GPUs of one replica.
A teacher whose model is not known is not judged.

Sources
-------

verl 0.8.0 and 0.9.1, ``trainer/ppo/ray_trainer.py`` (``teacher_pool``), ``experimental/teacher_loop/teacher_model.py`` (``TeacherModelManager``: a replica for every ``per_replica_world_size`` GPUs of that pool).
vLLM, ``v1/core/kv_cache_utils.py``, ``check_enough_kv_cache_memory``.
"""

from msgspec.structs import replace

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.teacher_engine import problem, with_room
from tuner.workload import Service, ServiceRole

RULE = Rule(
    code="ROL029",
    name="teacher-fraction",
    summary=N_("the memory fraction of a teacher's engine leaves no room for its cache"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Raise the fraction of each teacher whose engine does not start."""
    raised = {place: with_room(case.workload, teacher) for place, teacher in _stuck(case)}
    mended = {place: teacher for place, teacher in raised.items() if teacher is not None}
    if not mended:
        return None
    services = case.workload.services
    proposal = replace(
        case.workload,
        services=tuple(mended.get(place, service) for place, service in enumerate(services)),
    )
    first = min(mended)
    return Finding(
        rule=RULE,
        message=_("{reason}: {fraction:.2f} is too small, with {enough:.2f} it starts").format(
            reason=problem(case.workload, services[first]),
            fraction=_fraction(services[first]),
            enough=_fraction(mended[first]),
        ),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        proposal=proposal,
        notes=() if len(mended) == 1 else (_("so with {count} teachers").format(count=len(mended)),),
    )


def _stuck(case: Case) -> list[tuple[int, Service]]:
    """The teachers whose engine does not start, by their place among the services."""
    return [
        (place, service)
        for place, service in enumerate(case.workload.services)
        if service.role is ServiceRole.TEACHER
        and service.server is not None
        and problem(case.workload, service) is not None
    ]


def _fraction(teacher: Service) -> float:
    return 0.0 if teacher.server is None else teacher.server.memory_fraction
