"""How a job validates between its steps."""

from msgspec import Struct

from tuner.enumeration import Enum


class KnownRows(Enum):
    """What is known of the number of rows that a validation is priced for."""

    SAID = "said"
    NAMED = "named"  # those of well-known data, whose name their file has
    AT_MOST = "at_most"  # a setting bounds them, and the data may have fewer
    AT_LEAST = "at_least"  # one batch, without which the trainer stops
    UNKNOWN = "unknown"  # nobody says: they are an example


class Validating(Struct, frozen=True, kw_only=True):
    """How often a job validates, and in which batches its trainer generates what it judges then.

    The last step of a job that validates at all between its steps is always followed by a validation.
    """

    every_steps: int | None  # None: not between steps
    before_training: bool
    responses_per_prompt: int
    prompts_at_a_time: int | None  # one batch after the other; None: all of the data at once
    drops_rest: bool = False  # rows that fill no batch are left out, and at least one batch has to be there
    most_rows: int | None  # of the data that are taken at most; None: all of them
    sends_weights: bool  # to the rollout engine, before every batch
    key: str  # that says how often, for messages
    batch_key: str = ""  # that says how many rows are generated at a time
    rows_key: str = ""  # that says how many rows are taken at most
    named_rows: int | None = None  # of well-known data, whose name their file has; None: it has no such name
    named: tuple[str, ...] = ()  # these data

    def validations(self, steps: int) -> int:
        """How many validations a job of so many steps has."""
        between = 0 if self.every_steps is None else -(-steps // self.every_steps)
        return between + self.before_training

    def rows(self, said: int | None, *, example: int) -> tuple[int, KnownRows]:
        """The rows that a validation takes, and what is known of their number.

        Args:
            said: how many the data have; None where nobody says.
            example: how many are taken where nothing is known.
        """
        batch = self.prompts_at_a_time if self.drops_rest else None
        there = self.named_rows if said is None else said
        known = [number for number in (there, self.most_rows) if number is not None]
        if not known:
            return (example, KnownRows.UNKNOWN) if batch is None else (batch, KnownRows.AT_LEAST)
        rows = min(known)
        taken = rows if batch is None else max(1, rows // batch) * batch
        if said is not None:
            return taken, KnownRows.SAID
        return taken, KnownRows.NAMED if rows == self.named_rows else KnownRows.AT_MOST
