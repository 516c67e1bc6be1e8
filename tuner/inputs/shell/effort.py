"""What it costs to follow a script, in statements; what no launch script takes is not followed further."""

MOST_STEPS = 8_000
MOST_CHARACTERS = 1 << 20  # of one value; scripts of launches stay below a thousandth of it
_CHARACTERS_PER_STEP = 1_000  # that are copied in the time of a statement
_CHARACTERS_PER_VALUE = 100  # that are copied in the time that any value takes, however short
_VALUES_PER_STEP = 20
_PARSED_PER_STEP = 20  # characters; on what is no shell the parser takes longest
_COMPARED_PER_STEP = 20_000  # pairs of characters that a pattern is tried on
_STEPS_PER_FILE = 20  # that looking for it in a dozen folders takes


class TooMuchError(Exception):
    """A script makes more work, or larger values, than a launch script would."""


class Effort:
    """The work of following one script, wherever it is done. The amounts are rates on a slow machine."""

    def __init__(self) -> None:
        self.steps = 0
        self._copied = 0  # characters, since the last step that they were counted as

    def spend(self, steps: int = 1) -> None:
        """Take some steps.

        Raises:
            TooMuchError: there were too many.
        """
        self.steps += steps
        if self.steps > MOST_STEPS:
            raise TooMuchError

    def copy_text(self, characters: int) -> None:
        """Make a value of this size."""
        steps, self._copied = divmod(self._copied + characters + _CHARACTERS_PER_VALUE, _CHARACTERS_PER_STEP)
        self.spend(steps + (MOST_STEPS if characters > MOST_CHARACTERS else 0))

    def copy_values(self, count: int) -> None:
        """Copy variables, or make the fields of a word."""
        self.spend(count // _VALUES_PER_STEP)

    def parse(self, characters: int) -> None:
        """Parse a text that the script makes."""
        self.spend(1 + characters // _PARSED_PER_STEP)

    def match(self, characters: int) -> None:
        """Try a pattern at every place of a text."""
        self.spend(characters**2 // _COMPARED_PER_STEP)

    def look_for_file(self) -> None:
        """Look for a file by its name."""
        self.spend(_STEPS_PER_FILE)
