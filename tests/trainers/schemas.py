"""Which keys a release of verl knows, its recipes and free-form sections among them."""

from collections.abc import Iterable

from tuner.inputs.tree import split_key
from tuner.trainers.verl.defaults import CONFIGS, read_defaults
from tuner.trainers.verl.schema import schema_of

# Keys of recipes with a configuration of their own, and of schemas that keep a free-form section.
OUTSIDE = (
    "rollout.",
    "async_training.",
    "async_resources.",
    "actor_rollout_ref.model.fused_kernel_options.",
    "data.gen_batch_size",
    "algorithm.filter_groups.",
)
# Read with .get() by the legacy workers, so that they may be added although no schema lists them.
ADDED = ("mixed_precision.", "override_optimizer_config.", "override_transformer_config.", "engine_kwargs.")
LEGACY_ADDED = ("fsdp_config.model_dtype", "ref.fsdp_config.", "actor_rollout_ref.model.use_liger")


def unknown_keys(names: Iterable[str], version: str) -> list[str]:
    """The keys that neither a configuration of the release nor its dataclasses have."""
    schemas = [schema_of(read_defaults(version, config)) for config in CONFIGS]
    return [
        name
        for name in names
        if not name.startswith(OUTSIDE)
        and not any(part in name for part in (*ADDED, *LEGACY_ADDED))
        and not any(
            schema.in_yaml(split_key(name)) or schema.in_dataclass(split_key(name)) for schema in schemas
        )
    ]
