"""What commands end with where it is not zero; the program's help says it in words."""

FINDINGS = 1
BAD_INPUT = 2  # also what click ends with where it cannot read the arguments
INTERNAL_ERROR = 3
INTERRUPTED = 130
