"""The value behind a key, in lines of YAML and of scripts."""

import pytest

from tuner.review.value_span import value_span

# In each line the value stands between « and », and what is asked about begins behind §.
CASES = [
    "  §key: «0.95»",
    "  §key: «0.95»   # a comment",
    "  §key:   «a value with blanks»  # and a comment",
    "  §key: «a#b»",
    '  §key: «"quoted: # \\" text"» # comment',
    "  §key: «'it''s'»",
    '  §"a key": «1»',
    "  §'a key' : «1»",
    "  §显存: «高»",
    "  §key:\t«1»",
    "  §key: «null»",
    "  §key: «${oc.select:a.b,null}»  # an interpolation is a scalar",
    "  {§a: «1», b: 2}",
    "  {a: 1, §b: «2»}",
    "  {a: {§b: «2»}, c: 3}",
    "  {a: '}', §b: «2»}",
    "  - §«item» # comment",
    "  [§«item», other]",
    # Without a value that one could point at it is the key.
    "  §«key»:",
    "  §«key»:  # a mapping follows",
    "  §«key»: |",
    "  §«key»: &anchor 1",
    "  §«key»: *alias",
    "  §«key»: {a: 1}",
    "  §«key»: [1, 2]",
    # Words of a script, an override as it is typed.
    "§actor.n=«8»",
    "    §actor.n=«8» \\",
    "    §+actor.n=«8»; next",
    "    §++actor.n=«8»|tee log",
    "    §actor.n=«$N» \\",
    "    §actor.n=«${N:-a b}» \\",
    "    §actor.n=«$(( N * 2 ))»",
    '    §actor.n=«"a b"» \\',
    "    §'actor.n=«[a, b]»' \\",
    '    §"actor.n=«[$A, b]»" \\',
    "    §«actor.n»= \\",
    "    §«~actor.n» \\",
    "    §«'~actor.n'» \\",
    "    §~actor.n=«8» \\",
]


def parted(case: str) -> tuple[str, int, tuple[int, int]]:
    bare = case.replace("§", "").replace("«", "").replace("»", "")
    asked = case.replace("«", "").index("§")
    value = case.replace("§", "")
    return bare, asked, (value.index("«"), value.index("»") - 1)


@pytest.mark.parametrize("case", CASES)
def test_the_value_is_found(case: str) -> None:
    text, start, span = parted(case)
    assert value_span(text, start) == span
