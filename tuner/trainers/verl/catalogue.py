"""What is known of every key of the bundled releases of verl; each part is loaded when it is asked for."""

from typing import Any

from tuner.trainers.key_facts import KeyClass, OfferedKey


def key_classes(version: str) -> tuple[KeyClass, ...]:
    """Every key once, see :func:`tuner.trainers.verl.coverage.tables.of_release`."""
    from tuner.trainers.verl.coverage import tables

    return tables.of_release(version)


def input_schema(version: str) -> dict[str, Any]:
    """The JSON Schema of the configurations that a bundled release takes."""
    from tuner.trainers.verl import editor_schema  # no answer asks for it

    return editor_schema.input_schema(version)


def offered_keys(version: str, begun: str) -> tuple[OfferedKey, ...]:
    """The keys that begin so, see :func:`tuner.trainers.verl.key_completion.offered_keys`."""
    from tuner.trainers.verl import key_completion

    return key_completion.offered_keys(version, begun)
