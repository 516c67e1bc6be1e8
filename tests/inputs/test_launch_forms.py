"""What starts a trainer in a script: its program, its overrides, what is open in them, its processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.inputs.test_shell_forms import AT_ONCE, forms
from tuner.errors import InputError
from tuner.inputs.launch_input import launched, pasted
from tuner.inputs.script import read_script

FORMS = forms("script-launches.txt")
FILE = Path("run.sh")


def started(script: str) -> Iterator[str]:
    """Each launch of a script as a line."""
    read = read_script(FILE, f"{script}\n".encode(), ())
    for number, launch in enumerate(read.launches, start=1):
        given = launched(FILE, read, (), number)
        yield " ".join(
            (
                *(f"{name}={value}" for name, value in launch.environment),
                f"{given.program}:",
                *(argument.text.replace(" ", "_") for argument in given.arguments),
                *(f"?{item.key}:{item.name or item.text}" for item in given.unsettled),
                *(
                    f"{name}:{count.value}"
                    for name, count in (
                        ("per_node", launch.processes.per_node),
                        ("nodes", launch.processes.nodes),
                    )
                    if count is not None
                ),
                *(() if launch.certain else ("perhaps",)),
            )
        )


@pytest.mark.parametrize("start", range(0, len(FORMS), AT_ONCE))
def test_every_form_of_a_launch_is_read(start: int) -> None:
    expected = dict(FORMS[start : start + AT_ONCE])
    assert {script: list(started(script)) for script in expected} == expected


@pytest.mark.parametrize(("number", "key"), [(1, "x.y=1"), (2, "x.y=2")])
def test_a_launch_is_chosen_by_its_number(number: int, key: str) -> None:
    script = read_script(FILE, b"python a.py x.y=1\npython b.py x.y=2\n", ())
    assert [argument.text for argument in launched(FILE, script, (), number).arguments] == [key]


@pytest.mark.parametrize("number", [0, 3, -1])
def test_a_launch_that_is_not_there_is_refused(number: int) -> None:
    script = read_script(FILE, b"python a.py x.y=1\npython b.py x.y=2\n", ())
    with pytest.raises(InputError, match=f"there is no launch {number}: the script has 2"):
        launched(FILE, script, (), number)


def test_an_unquoted_placeholder_leaves_its_variable_open_and_is_named() -> None:
    script = b"set -x\nDATA=<where_it_lies> # yours\nN=8\npython a.py data.train_files=$DATA/a x.n=$N\n"
    left, filled = (read_script(FILE, script, words) for words in ((), ("DATA=/d",)))
    assert [argument.text for argument in launched(FILE, left, (), 1).arguments] == [
        "data.train_files=$DATA/a",
        "x.n=8",
    ]
    assert launched(FILE, filled, ("DATA=/d",), 1).arguments[0].text == "data.train_files=/d/a"
    (remark,) = (entry for entry in launched(FILE, left, (), 1).remarks if "placeholder" in entry.text)
    assert (remark.location.line, remark.text.split(" is ")[0]) == (2, "DATA=<where_it_lies>")


def test_what_a_template_is_filled_with_is_open_alone_and_a_word_in_a_name() -> None:
    script = b"""M={YOUR_MODEL}; N={NAME}
    python a.py x.path=$M x.name=run-$N x.dir={ROOT}/$N x.same='a${x.name}b' "x.text='{ROOT}/b'"
    """
    given = launched(FILE, read_script(FILE, script, ()), (), 1)
    assert [entry.key for entry in given.unsettled] == ["x.path"]
    assert [argument.text for argument in given.arguments] == [
        "x.name=run-$NAME",
        "x.dir=$ROOT/$NAME",
        "x.same=a${x.name}b",
        "x.text='{ROOT}/b'",
    ]


@pytest.mark.parametrize(
    ("words", "program", "arguments"),
    [
        (["python", "-m", "a.b", "x.y=1", "x.z=2"], "a.b", ["x.y=1", "x.z=2"]),
        (["A=1", "python", "a.py", "x.y=1"], "a.py", ["x.y=1"]),
        (["x.y=1", "~x.z"], "", ["x.y=1", "~x.z"]),
        (["x.y=1", "A=", "B=1"], "", ["x.y=1", "A=", "B=1"]),
        (["A=1", "B=a.b", "x.y=1"], "", ["x.y=1"]),
        (["bash", "-c", "x=1; python a.py x.y=$x"], "a.py", ["x.y=1"]),
    ],
)
def test_a_pasted_command_is_read(words: list[str], program: str, arguments: list[str]) -> None:
    given = pasted(words)
    assert (given.program, [argument.text for argument in given.arguments]) == (program, arguments)
