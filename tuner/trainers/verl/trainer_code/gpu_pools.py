"""The pools of GPUs that the program of a copy of the trainer gives its models, as far as that is sure.

Every release has one pool, and another one for a reward model where a key asks for it.

Source: verl 0.3.0.post1 to 0.7.1 ``trainer/main_ppo.py`` and ``single_controller/ray/base.py``
(``ResourcePoolManager``: ``resource_pool_spec`` has the GPUs of every node by pool, ``mapping`` the pool by
role); verl's ``examples/split_placement/main_ppo_split.py`` halves the GPUs.
"""

from tuner.trainers.verl.trainer_code.program_run import ProgramRun
from tuner.trainers.verl.trainer_code.program_values import RoleTable, Value

_ACTORS = ("ActorRollout", "ActorRolloutRef", "Actor")
_GENERATES = "Rollout"
#: Of the releases: verl 0.3.0.post1 to 0.9.1 ``trainer/ppo/ray_trainer.py``, ``utils.py`` (``Role``).
_RELEASED = frozenset({*_ACTORS, _GENERATES, "Critic", "RefPolicy", "RewardModel", "Env", "TeacherModel"})
_OTHERS = {"critic": "Critic", "reference": "RefPolicy", "reward": "RewardModel"}


def gpu_pools(run: ProgramRun) -> dict[str, Value]:
    """The GPUs of the policy's pool, those that only generate, and the models in other pools.

    Roles of the copy's own are together in other pools, or nothing is said of them.

    Nothing where there are several managers of pools, or where the policy's pool is not sure.
    """
    if len(run.pools) != 1:
        return {}
    spec, mapping = run.pools[0]
    if not isinstance(spec, dict) or not isinstance(mapping, RoleTable) or mapping.is_open:
        return {}
    pools = {role: pool for role, pool in mapping.workers.items() if isinstance(pool, str)}
    actor = next((role for role in _ACTORS if role in mapping.workers), "")
    own = _nodes(spec.get(pools.get(actor)))
    if not own or len(set(own)) > 1:
        return {}
    others = {name: role for name, role in _OTHERS.items() if pools.get(role, pools[actor]) != pools[actor]}
    answers: dict[str, Value] = {"trainer_gpus": (own[0], len(own)), "apart": tuple(others)}
    added = [pool for role, pool in mapping.workers.items() if role not in _RELEASED]
    answers["added_apart"] = bool(added) and all(
        isinstance(pool, str) and pool != pools[actor] for pool in added
    )
    generating = pools.get(_GENERATES, pools[actor])
    if actor == _ACTORS[-1] and generating != pools[actor]:
        answers["rollout_gpus"] = sum(_nodes(spec.get(generating))) or None
    return answers


def _nodes(sizes: Value) -> list[int]:
    """The GPUs of a pool on each of its nodes; none where that is not known."""
    known = isinstance(sizes, list) and all(type(size) is int and size > 0 for size in sizes)
    return list(sizes) if known else []
