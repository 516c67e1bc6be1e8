"""Which experts a sparse model takes again, and how they travel."""

from tuner.model_shape import ModelShape
from tuner.trainers.verl.source import ReleaseSettings
from tuner.workload import Backend, Engine, RouterReplay


def read_replay(source: ReleaseSettings, model: ModelShape, engine: Engine) -> RouterReplay | None:
    """Router replay: ``R2`` repeats the experts of the old log-probabilities, ``R3`` those of the rollout.

    Of the engines that are modelled Megatron and VeOmni have it. Indices of ``R2`` are uint8 before 0.9.1.
    Those of ``R3`` are as the rollout engine gives them, int32 at most, int64 where 0.9.0 sends them through
    its transfer queue. Since 0.9.1 all are int16.

    Source: verl 0.7.0 to 0.9.1 ``utils/megatron/router_replay_utils.py`` (``merge_router_topk_indices``),
    ``experimental/agent_loop/agent_loop.py`` (``as_dict``, ``_agent_loop_postprocess``); 0.7.1
    ``workers/actor/megatron_actor.py`` (``update_policy`` clears after the optimizer's step).
    """
    mode = source.text("actor.router_replay", default="disabled")
    has_replay = engine.backend is Backend.MEGATRON or source.veomni
    if mode not in ("R2", "R3") or not has_replay or model.moe is None:
        return None
    return RouterReplay(
        from_rollout=mode == "R3",
        index_bytes=_index_bytes(source, from_rollout=mode == "R3"),
        kept_through_step=not source.engine_workers,
    )


def _index_bytes(source: ReleaseSettings, *, from_rollout: bool) -> int:
    if source.since("0.9.1"):
        return 2
    if not from_rollout:
        return 1
    return 8 if source.v1_trainer else 4
