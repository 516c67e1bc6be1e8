"""Files that are no configuration by themselves: jobs, Python, folders of runs, names, and their limits."""

from pathlib import Path

import pytest

from tests.inputs.test_shell import shown
from tuner.errors import InputError, Location
from tuner.inputs.launch_input import with_config, with_missing_config
from tuner.inputs.manifest import Piece, is_launch, laid_out, launching_document, on_one_line, script_in
from tuner.inputs.overrides import COMMAND_LINE, Argument
from tuner.inputs.python_file import script_in_python
from tuner.inputs.reading import read_given
from tuner.inputs.run_folder import configuration_in, is_wandb, typed_overrides
from tuner.inputs.user_input import MissingConfiguration, UserInput, folder_of
from tuner.inputs.yaml_file import MAX_BYTES, parse_yaml

LINE = "python a.py x.y=1"
PLACE = Location(source="x", line=4)


@pytest.mark.parametrize(
    ("text", "first", "expected"),
    [
        (f"a: 1\n---\nb: {LINE}\n", "\n\n", f"b: {LINE}\n"),
        (f"b: {LINE}\n---\na: 1\n", "", f"b: {LINE}"),
        (f"a: python a.py\n---\nb: x.y=1\n---\nc: {LINE}", "\n" * 4, f"c: {LINE}"),
        (f"a: x.y=1\n---\nc: {LINE}", "\n\n", f"c: {LINE}"),
    ],
)
def test_the_document_that_starts_a_program(text: str, first: str, expected: str) -> None:
    assert launching_document(text) == first + expected


@pytest.mark.parametrize("text", [f"a: {LINE}", "a: 1\n---\nb: 2", "--- \na: python a.py\n---\nb: x.y=1"])
def test_a_text_without_one_stays(text: str) -> None:
    assert launching_document(text) == text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["python a.py x.y=1"], True),
        (["python", "a.py", "x.y=1"], True),
        (["python3.10 a.py +x.y.z=1"], True),
        (["torchrun a.py ++x.y=1"], True),
        (["deepspeed a.py x.y=1"], True),
        (["python a.py x=1"], False),
        (["python a.py"], False),
        (["x.y=1"], False),
        (["perl a.py x.y=1"], False),
        (["mypython a.py x.y=1"], False),
    ],
)
def test_what_is_a_launch(words: list[str], expected: bool) -> None:
    assert is_launch([Piece(line=1, text=word) for word in words]) is expected


@pytest.mark.parametrize(
    ("commands", "text"),
    [
        ([[(1, "a")]], "a\n"),
        ([[(3, "a")]], "\n\na\n"),
        ([[(1, "a"), (1, "b")]], "a b\n"),
        ([[(1, "a"), (3, "b")]], "a \\\n \\\nb\n"),
        ([[(2, "a"), (1, "b")]], "\na b\n"),
        ([[(1, "a\n"), (2, "b")]], "a\nb\n"),
        ([[(1, "a\n"), (4, "b")]], "a\n\n\nb\n"),
        ([[(1, "a")], [(2, "b")]], "a\nb\n"),
        ([[(1, "a")], [(4, "b")]], "a\n\n\nb\n"),
        ([[(2, "a")], [(1, "b")], [(9, "c")]], "\na\nb\n\n\n\n\n\nc\n"),
    ],
)
def test_pieces_stand_on_their_lines(commands: list[list[tuple[int, str]]], text: str) -> None:
    assert laid_out([[Piece(line=line, text=word) for line, word in command] for command in commands]) == text


@pytest.mark.parametrize(
    ("text", "script"),
    [
        (f"run: |\n  {LINE}\n", f"\n{LINE}\n\n"),
        (f"run: |-\n  {LINE}\n  echo\n", f"\n{LINE}\necho\n"),
        (f"command: {LINE}\n", f"{LINE}\n"),
        (f"a:\n  entrypoint: >\n    {LINE}\n", f"\n\n{LINE}\n\n"),
        ("command: [python, a.py]\nargs:\n- x.y=1\n- 'b c'\n", "python a.py \\\n \\\nx.y=1 \\\n'b c'\n"),
        ("command: [python, a.py, 3, x.y=1]\n", "python a.py x.y=1\n"),
        ("module: a.b\nargs: [x.y=1]\n", "python -m a.b \\\nx.y=1\n"),
        ("module: 3\nargs: [x.y=1]\n", None),
        (f"env: {{A: 1, 'b c': 2, D: [1]}}\ncommand: {LINE}\n", f"export A=1; \n{LINE}\n"),
        (f"envs: {{A: x y}}\ncommand: {LINE}\n", f"export A='x y'; \n{LINE}\n"),
        (
            f"env:\n- {{name: A, value: 1}}\n- {{name: B}}\n- 3\ncommand: {LINE}\n",
            f"export A=1; \n\n\n\n{LINE}\n",
        ),
        (f"a:\n- environment: {{A: 1.5}}\nb:\n  command: {LINE}\n", f"export A=1.5; \n\n\n{LINE}\n"),
        (f"cells:\n- source:\n  - '!{LINE}'\n", f"\n\n{LINE}\n\n"),
        (f"cells:\n- source:\n  - '%%bash'\n  - {LINE}\n  - 3\n", f"\n\n\n{LINE}\n\n"),
        ("run: |\n  echo\n", None),
        ("a: 1\n", None),
        (f"a: {LINE}\n", None),
    ],
)
def test_the_script_of_a_job(text: str, script: str | None) -> None:
    assert script_in(parse_yaml(text, source="x"), text) == script


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("a = ['python', 'a.py', 'x.y=1']\n", "python a.py x.y=1\n"),
        ("a = ('python', 'a.py', 'x.y=1')\n", "python a.py x.y=1\n"),
        ("a = ['python', 'a.py']\na += ['x.y=1']\n", "python a.py \\\nx.y=1\n"),
        (
            "a = ['python', 'a.py']\na.append('x.y=1')\na.extend(['x.z=2'])\n",
            "python a.py \\\nx.y=1 \\\nx.z=2\n",
        ),
        ("a = ['python', 'a.py']\na.insert(0, 'x.y=1')\n", None),
        ("a = ['python', 'a.py']\nb.c += ['x.y=1']\n", None),
        ("a.b += ['python', 'a.py', 'x.y=1']\n", None),
        ("a = b = ['python', 'a.py', 'x.y=1']\n", None),
        (
            "a = ['python', 'a.py', 'x.y=1']\na = ['python', 'b.py', 'x.y=2']\n",
            "python a.py x.y=1\npython b.py x.y=2\n",
        ),
        ("a = ['python', 'a.py']\na = ['x.y=1']\n", None),
        ("run(['python', 'a.py', 'x.y=1'])\n", "python a.py x.y=1\n"),
        ("run('python', ['python', 'a.py', 'x.y=1'], 3)\n", "python a.py x.y=1\n"),
        (f"run('{LINE}')\n", f"{LINE}\n"),
        (f"'{LINE}'\n", None),
        (f"def f():\n    '''{LINE}'''\n", None),
        (f"run('''\n{LINE}\n''')\n", f"\n{LINE}\n\n"),
        ("n = 2\nrun(f'python a.py x.y={n}')\n", "export n=2; \npython a.py x.y=${n}\n"),
        ("n = 2\nn = 3\nrun(f'python a.py x.y={n}')\n", "\n\npython a.py x.y=${n}\n"),
        ("n = 2\nn = f()\nrun(f'python a.py x.y={n}')\n", "\n\npython a.py x.y=${n}\n"),
        ("n = m = 2\nrun(f'python a.py x.y={n}')\n", "\npython a.py x.y=${n}\n"),
        ("n = b'x'\nrun(f'python a.py x.y={n}')\n", "\npython a.py x.y=${n}\n"),
        ("n = None\nrun(f'python a.py x.y={n}')\n", "\npython a.py x.y=${n}\n"),
        ("n = 'a b'\nrun(f'python a.py x.y={n}')\n", "export n='a b'; \npython a.py x.y=${n}\n"),
        ("run(f'python a.py x.y={a.b} x.z={1 + 2}')\n", "python a.py x.y=${a_b} x.z=$(((1 + 2)))\n"),
        ("run(['python', 'a.py', 'x.y=a b', 'x.z=\"q\"'])\n", 'python a.py "x.y=a b" "x.z=\\"q\\""\n'),
        ("run(['python', 'a.py', n, 'x.y=1'])\n", "python a.py x.y=1\n"),
        ("x = (", None),
        ("a = 1\n", None),
    ],
)
def test_the_script_of_a_file_of_python(text: str, script: str | None) -> None:
    assert script_in_python(text) == script


@pytest.mark.parametrize(
    ("text", "texts", "lines"),
    [
        ("- a=1\n- b=2\n", ["a=1", "b=2"], [1, 2]),
        ("\n[a=1, b=2]\n", ["a=1", "b=2"], [2, 2]),
        ("- a\n", ["a"], [1]),
        ("a: 1\n", None, []),
        ("- 1\n", [], None),
        ("--- 3\n", None, []),
    ],
)
def test_a_list_of_overrides(text: str, texts: list[str] | None, lines: list[int] | None) -> None:
    if lines is None:
        with pytest.raises(InputError, match="an entry of the list is no override") as caught:
            typed_overrides(text, source="x")
        assert caught.value.location == Location(source="x", line=1, column=3)
        return
    listed = typed_overrides(text, source="x")
    assert (None if listed is None else [argument.text for argument in listed]) == texts
    assert [argument.location.line for argument in listed or ()] == lines


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({"a": {"value": 1}}, True),
        ({"a": {"value": 1, "desc": None}, "_wandb": {}}, True),
        ({"a": {"value": 1, "other": 2}}, False),
        ({"a": {"desc": 1}}, False),
        ({"a": {"value": 1}, "b": 2}, False),
        ({"_wandb": {"value": 1}}, False),
        ({}, False),
    ],
)
def test_what_wandb_wrote(tree: dict[str, object], expected: bool) -> None:
    assert is_wandb(tree) is expected


def run_folder(folder: Path) -> Path:
    (folder / ".hydra").mkdir(parents=True)
    (folder / ".hydra/config.yaml").write_text("a: 1\n")
    return folder / ".hydra/config.yaml"


@pytest.mark.parametrize(("count", "more"), [(2, ""), (10, ""), (11, ", ..."), (12, ", ...")])
def test_ten_runs_of_a_folder_are_named(count: int, more: str, tmp_path: Path) -> None:
    files = [run_folder(tmp_path / f"{number:02}") for number in range(count)]
    with pytest.raises(InputError, match=f"holds {count} runs") as caught:
        configuration_in(tmp_path)
    assert (caught.value.hint or "").endswith(", ".join(map(str, files[:10])) + more)


@pytest.mark.parametrize(("depth", "there"), [(0, True), (1, True), (3, True), (4, False)])
def test_a_run_lies_at_most_three_folders_below(depth: int, there: bool, tmp_path: Path) -> None:
    file = run_folder(tmp_path.joinpath(*"abcd"[:depth]))
    if there:
        assert configuration_in(tmp_path) == file
    else:
        with pytest.raises(InputError, match="holds no run"):
            configuration_in(tmp_path)


def test_the_folder_of_an_input() -> None:
    assert folder_of("-") == ""
    assert folder_of("/a/b.yaml") == "/a"
    assert folder_of("b.yaml") == str(Path.cwd())


@pytest.mark.parametrize(
    ("name", "path", "file", "laid"),
    [
        ("c", ".", "c.yaml", True),
        ("c.yaml", ".", "c.yaml", True),
        ("c", "conf", "conf/c.yaml", True),
        ("c", "$DIR/conf", "conf/c.yaml", True),
        ("c", "conf", "c.yaml", False),
        ("c", None, "c.yaml", False),
        (None, "conf", "conf/c.yaml", False),
    ],
)
def test_a_configuration_that_a_launch_names(
    name: str | None, path: str | None, file: str, laid: bool, tmp_path: Path
) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("a: 1\n")
    options = {"--config-name": name, "--config-path": path}
    arguments = tuple(
        Argument(text=f"{option}={value}", location=PLACE) for option, value in options.items() if value
    )
    given = with_config(UserInput(source="x", arguments=arguments), tmp_path / "below")
    assert (given.document is not None, len(given.remarks)) == (laid, int(laid))
    if laid:
        assert given.document is not None and given.document.tree == {"a": 1}
        assert given.remarks[0].location == PLACE


def test_a_configuration_that_is_missing_is_open_where_it_is_named() -> None:
    named = UserInput(source="x", arguments=(Argument(text="--config-name=c", location=PLACE),))
    typed = MissingConfiguration(name="c", looked_in=(), reason="", location=Location(source=COMMAND_LINE))
    [missing] = with_missing_config(named, typed).unsettled
    assert (missing.key, missing.name, missing.location) == ("--config-name", "", PLACE)
    unnamed = with_missing_config(UserInput(source="x", arguments=()), typed)
    assert unnamed.unsettled[0].location == Location(source="x")
    assert unnamed.missing == typed


@pytest.mark.parametrize("name", ["a.yaml", "a.sh"])
@pytest.mark.parametrize(("more", "read"), [(0, True), (1, False)])
def test_the_largest_file(name: str, more: int, read: bool, tmp_path: Path) -> None:
    file = tmp_path / name
    head = b"a: 1\n" if name.endswith("yaml") else f"{LINE}\n".encode()
    file.write_bytes(head + b"#" * (MAX_BYTES + more - len(head)))
    if name.endswith("yaml") and read:
        document = read_given(str(file), ()).document
        assert document is not None and document.tree == {"a": 1}
    elif not read:
        with pytest.raises(InputError, match="larger than"):
            read_given(str(file), ())


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("a.py", "text = '''\nit's\na \\\\n\n'''\n\nrun('python a.py x.y=1')\n", 6),
        ("a.yaml", f"env:\n  A: |\n    it's\n    more\ncommand: {LINE}\n", 5),
    ],
)
def test_a_value_of_several_lines_moves_no_override(
    name: str, content: str, line: int, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_text(content)
    [argument] = read_given(str(file), ()).arguments
    assert (argument.text, argument.location.line) == ("x.y=1", line)


@pytest.mark.parametrize("value", ["", "a", "a b", "it's", "a\nb", "it's\na \\n\\", "\n\n", "a'\n'"])
def test_a_value_on_one_line_is_the_same_value(value: str) -> None:
    assert "\n" not in on_one_line(value)
    assert shown(f"show {on_one_line(value)}x") == [f"<{value}x>"]
