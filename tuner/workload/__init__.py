"""What a reinforcement-learning step does, without a word of any trainer.

A trainer module reads its own configuration into a :class:`Workload`; the memory and time
models and the rules see nothing else. A release's behaviour arrives here as a plain fact
(``hard_limit``, ``scaling``, ``deferred_gradient_sync``), never as a version to compare.

Structs with ``cache_hash`` are keys of caches, looked up far more often than they are made.
"""

from tuner.workload.batch import Batch, Batching, Pass
from tuner.workload.engine import Backend, Checkpointing, Engine, Lora, Parallelism
from tuner.workload.head import ENTROPY_CHUNK_TOKENS, HeadKind, OutputHead, Scaling
from tuner.workload.job import Quantity, Release, Workload
from tuner.workload.passes import Role, StepPass
from tuner.workload.phases import Phase
from tuner.workload.roles import Actor, Critic, Reference
from tuner.workload.rollout import CacheSizing, FractionOf, Rollout, RolloutEngine
from tuner.workload.sync import WeightSync

__all__ = [
    "ENTROPY_CHUNK_TOKENS",
    "Actor",
    "Backend",
    "Batch",
    "Batching",
    "CacheSizing",
    "Checkpointing",
    "Critic",
    "Engine",
    "FractionOf",
    "HeadKind",
    "Lora",
    "OutputHead",
    "Parallelism",
    "Pass",
    "Phase",
    "Quantity",
    "Reference",
    "Release",
    "Role",
    "Rollout",
    "RolloutEngine",
    "Scaling",
    "StepPass",
    "WeightSync",
    "Workload",
]
