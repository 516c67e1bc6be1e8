"""What the trainer's engines keep on the card, and when."""

from dataclasses import dataclass

from tuner.evidence import Evidence
from tuner.memory import model_states
from tuner.memory.overhead import process_overhead_bytes
from tuner.memory.terms import Item, Term
from tuner.model_shape import ModelShape
from tuner.workload import Engine, Workload


@dataclass(frozen=True, kw_only=True)
class States:
    """One engine's resident states."""

    parameters: Term
    optimizer: Term
    engine: Engine

    @classmethod
    def of(cls, model: ModelShape, engine: Engine, role: str) -> "States":
        """The states of an engine; ``role`` begins the terms' names."""
        return cls(
            parameters=Term(
                item=Item.PARAMETERS,
                name=f"{role}_parameters",
                bytes=model_states.parameter_bytes(model, engine),
                formula="b_s N / W",
            ),
            optimizer=Term(
                item=Item.OPTIMIZER,
                name=f"{role}_optimizer",
                bytes=model_states.optimizer_bytes(model, engine),
                formula="2 b_o N_t / W",
            ),
            engine=engine,
        )

    @property
    def idle(self) -> tuple[Term, ...]:
        """What stays on the card while another engine works."""
        kept = () if self.engine.param_offload else (self.parameters,)
        return kept if self.engine.optimizer_offload else (*kept, self.optimizer)

    @property
    def forward(self) -> tuple[Term, ...]:
        """A forward-only pass loads offloaded weights, not the optimizer."""
        kept = (self.parameters,)
        return kept if self.engine.optimizer_offload else (*kept, self.optimizer)

    @property
    def training(self) -> tuple[Term, ...]:
        """Training loads everything at its start and offloads at its end."""
        return (self.parameters, self.optimizer)


@dataclass(frozen=True, kw_only=True)
class Residents:
    """The engines of a job, and the trainer process itself."""

    actor: States
    critic: States | None
    context: Term

    @classmethod
    def of(cls, workload: Workload) -> "Residents":
        """The residents of a workload."""
        critic = workload.critic
        context = Term(
            item=Item.OVERHEAD,
            name="trainer_context",
            bytes=process_overhead_bytes(workload.actor.engine.parallel.gpus),
            evidence=Evidence.HEURISTIC,
            formula="context + communicators",
        )
        return cls(
            actor=States.of(workload.model, workload.actor.engine, "actor"),
            critic=None if critic is None else States.of(critic.model, critic.engine, "critic"),
            context=context,
        )

    @property
    def idle_actor(self) -> tuple[Term, ...]:
        """The actor while the critic or the rollout works."""
        return self.actor.idle

    @property
    def idle_critic(self) -> tuple[Term, ...]:
        """The critic while the actor or the rollout works; nothing without a critic."""
        return () if self.critic is None else self.critic.idle

    @property
    def idle(self) -> tuple[Term, ...]:
        """Everything the trainer holds during generation."""
        return (*self.idle_actor, *self.idle_critic, self.context)
