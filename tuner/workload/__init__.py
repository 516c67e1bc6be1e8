"""What a training step does, without a word of any trainer.

A trainer module reads its own configuration into a :class:`Workload`; the memory and time
models and the rules see nothing else. A release's behaviour arrives here as a plain fact
(``hard_limit``, ``scaling``, ``deferred_gradient_sync``), never as a version to compare.

Structs with ``cache_hash`` are keys of caches, looked up far more often than they are made.
"""

from tuner.workload.batch import (
    ANY_LENGTHS,
    P95,
    Batch,
    Batching,
    Conversation,
    GreedyBaseline,
    Images,
    Lengths,
    Pass,
    Travel,
)
from tuner.workload.engine import (
    Attention,
    Backend,
    Checkpointing,
    Dispatcher,
    Engine,
    HostCopy,
    Lora,
    Padding,
    Parallelism,
    SecondFsdp,
    TokenBytes,
)
from tuner.workload.group_filter import KEPT_GROUPS, KEPT_GROUPS_ENDS, GroupFilter
from tuner.workload.head import ENTROPY_CHUNK_TOKENS, HeadKind, OutputHead, Scaling
from tuner.workload.job import Quantity, Release, ValidationWorkload, Workload
from tuner.workload.passes import Role, StepPass
from tuner.workload.rollout import CacheSizing, FractionOf, Rollout, RolloutEngine, Service, ServiceRole
from tuner.workload.step import (
    Actor,
    Carrier,
    Controller,
    Critic,
    HeldBatch,
    Phase,
    Reference,
    RouterReplay,
    Saving,
    WeightSync,
)

__all__ = [
    "ANY_LENGTHS",
    "ENTROPY_CHUNK_TOKENS",
    "KEPT_GROUPS",
    "KEPT_GROUPS_ENDS",
    "P95",
    "Actor",
    "Attention",
    "Backend",
    "Batch",
    "Batching",
    "CacheSizing",
    "Carrier",
    "Checkpointing",
    "Controller",
    "Conversation",
    "Critic",
    "Dispatcher",
    "Engine",
    "FractionOf",
    "GreedyBaseline",
    "GroupFilter",
    "HeadKind",
    "HeldBatch",
    "HostCopy",
    "Images",
    "Lengths",
    "Lora",
    "OutputHead",
    "Padding",
    "Parallelism",
    "Pass",
    "Phase",
    "Quantity",
    "Reference",
    "Release",
    "Role",
    "Rollout",
    "RolloutEngine",
    "RouterReplay",
    "Saving",
    "Scaling",
    "SecondFsdp",
    "Service",
    "ServiceRole",
    "StepPass",
    "TokenBytes",
    "Travel",
    "ValidationWorkload",
    "WeightSync",
    "Workload",
]
