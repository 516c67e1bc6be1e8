"""Parameters, gradients and optimizer states that live between passes, by how an engine divides its model."""

from tuner.memory.fsdp import states as fsdp_states
from tuner.memory.ledger.terms import Term
from tuner.memory.megatron import states as megatron_states
from tuner.model_shape import ModelShape
from tuner.workload import Backend, Engine


def parameters(model: ModelShape, engine: Engine, role: str = "actor") -> Term:
    """An engine's weights as they are stored; ``role`` begins the name."""
    if engine.backend is Backend.MEGATRON:
        return megatron_states.parameters(model, engine, role)
    return fsdp_states.parameters(model, engine, role)


def gradients(model: ModelShape, engine: Engine, name: str = "gradients") -> Term:
    """An engine's gradients before the optimizer step; Megatron's buffer at any time."""
    if engine.backend is Backend.MEGATRON:
        return megatron_states.gradients(model, engine, name)
    return fsdp_states.gradients(model, engine, name)


def optimizer(model: ModelShape, engine: Engine, role: str = "actor") -> Term:
    """An engine's optimizer states; ``role`` begins the name."""
    if engine.backend is Backend.MEGATRON:
        return megatron_states.optimizer(model, engine, role)
    return fsdp_states.optimizer(model, engine, role)


def optimizer_step(model: ModelShape, engine: Engine) -> Term:
    """What an optimizer step allocates for itself."""
    if engine.backend is Backend.MEGATRON:
        return megatron_states.optimizer_step(model, engine)
    return fsdp_states.optimizer_step(model, engine)
