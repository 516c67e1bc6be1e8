"""Words, conditions and loops of the shell, against the shell itself."""

import gc
import shutil
import subprocess
from pathlib import Path

import pytest

from tuner.errors import InputError
from tuner.inputs.script import read_script
from tuner.inputs.shell.expansion import Expander
from tuner.inputs.shell.interpreter import Interpreter
from tuner.inputs.shell.scope import Scope
from tuner.inputs.shell.source import parse_to_follow
from tuner.inputs.shell.values import text

pytestmark = pytest.mark.sampled(6)

BASH = shutil.which("bash")

# Each calls "show", whose arguments are compared with those that bash gives it.
SNIPPETS = (Path(__file__).parents[1] / "data/shell-snippets.txt").read_text().rstrip("\n").split("\n---\n")
FUNCTION = "show() { printf '<%s>' \"$@\"; printf '\\n'; }\nunset UNSET_IS_EMPTY_HERE\n"


def followed(script: str, *arguments: str) -> Interpreter:
    """A script, followed to its end."""
    interpreter = Interpreter(
        Scope(script="run.sh", arguments=tuple(text(word) for word in arguments)), lambda _: None
    )
    interpreter.follow(parse_to_follow("run.sh", script.encode()))
    return interpreter


def shown(script: str, *arguments: str) -> list[str]:
    """The arguments of each call of ``show``."""
    commands = followed(script, *arguments).commands
    return [
        "".join(f"<{word.text}>" for word in command.words[1:]) or "<>"
        for command in commands
        if str(command.words[0].text) == "show"
    ]


@pytest.mark.skipif(BASH is None, reason="needs bash to compare with")
@pytest.mark.parametrize("snippet", SNIPPETS)
def test_follows_a_script_as_bash_runs_it(snippet: str, tmp_path: Path) -> None:
    assert BASH is not None
    run = subprocess.run(
        [BASH, "--norc", "-c", FUNCTION + snippet],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        timeout=20,
    )
    expected = run.stdout.splitlines()
    assert expected, "the snippet shows nothing"
    assert "\n".join(shown("unset UNSET_IS_EMPTY_HERE\n" + snippet)).splitlines() == expected


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("show $NOBODY_SET", ["<$NOBODY_SET>"]),
        ("show a$(hostname)b", ["<a$(hostname)b>"]),
        ("x=$((N * 2)); show $x k=1", ["<$N><k=1>"]),
        ("if [ $N = 1 ]; then a=1; else a=2; fi; show $a", ["<$a>"]),
        ("if [ $N = 1 ]; then a=1; else a=1; fi; show $a", ["<1>"]),
        ("if [ $N = 1 ]; then exit 1; fi; show on", ["<on>"]),
        ("a=1; [ -f file ] && a=2; show $a", ["<$a>"]),
        ("case $N in x) a=1;; *) a=2;; esac; show $a", ["<$a>"]),
        ("while [ $N -gt 3 ]; do a=1; break; done; show end", ["<end>"]),
    ],
)
def test_what_only_a_run_could_tell_is_unknown(script: str, expected: list[str]) -> None:
    assert shown(script) == expected


def test_an_unknown_says_where_it_stands_and_what_would_settle_it() -> None:
    (command,) = followed("a=1\n  show n=$N m=$(date +%s)").commands
    number, moment = (word.text.unknowns[0] for word in command.words[1:])
    assert (number.name, str(number.location)) == ("N", "run.sh:2:10")
    assert (moment.name, moment.text) == ("", "$(date +%s)")


@pytest.mark.parametrize(
    "script",
    [
        "if command -v nvidia-smi > /dev/null; then show gpu; else show npu; fi",
        "if nvidia-smi; then show gpu; else show npu; fi",
        'if python3 -c "import torch_npu" 2> /dev/null; then show npu; else show gpu; fi',
        "if which npu-smi; then show npu; else show gpu; fi",
        'DEVICE=$(python3 -c "print(1)"); if [ "$DEVICE" = npu ]; then show npu; else show gpu; fi',
    ],
)
def test_a_script_that_asks_the_machine_finds_gpus(script: str) -> None:
    assert shown(script) == ["<gpu>"]


@pytest.mark.parametrize(
    "script",
    [
        "while true; do sleep 1; done; show end",
        "i=0; while [ $i -ge 0 ]; do i=$((i+1)); done; show end",
        "f() { f; }; f",
        ":(){ :|:& };:",
        "x=aaaaaaaaaa; for i in {1..60}; do x=$x$x; done; show end",
        "for i in {1..999999999}; do :; done; show end",
        "show $((9**9**9**9)) $((1 << 99999)) $(seq 1 999999999 | tr '\\n' x) $(printf '%999999999d' 1)",
        "$(" * 300 + ")" * 300,
        "(" * 3000 + ")" * 3000,
    ],
)
def test_no_script_takes_long(script: str) -> None:
    try:
        interpreter = followed(script)
    except (InputError, RecursionError):
        return
    assert sum(word.text.size for command in interpreter.commands for word in command.words) < 10_000_000


@pytest.mark.parametrize(
    "line",
    [
        'docker run --gpus all -v $PWD:/w verlai/verl:latest bash -c "cd /w && {}"',
        "kubectl exec -it head -- bash -lc 'cd /w; {}'",
        'sbatch --gres=gpu:8 --wrap="{}"',
        "ssh -p 22 node0 \"nohup bash -c '{}' > x.log\"",
        "CMD='{}'; echo $CMD; eval $CMD",
        "tmux new-session -d -s train '{}'",
    ],
)
def test_a_command_line_for_another_shell_is_followed(line: str, tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    content = line.format("python3 -m verl.trainer.main_ppo trainer.nnodes=2")
    [launch] = read_script(script, content.encode(), ()).launches
    assert (launch.program, [str(word.text) for word in launch.arguments]) == (
        "verl.trainer.main_ppo",
        ["trainer.nnodes=2"],
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("overrides", ["trainer.nnodes=2", 'trainer.nnodes=$N "data.train_files=${DATA:-x}"'])
def test_a_script_that_was_followed_leaves_no_garbage(overrides: str, tmp_path: Path) -> None:
    content = f"N=2\npython3 -m verl.trainer.main_ppo {overrides}\n"
    gc.collect()
    gc.disable()
    try:
        assert read_script(tmp_path / "run.sh", content.encode(), ()).launches
        left = [one for one in gc.get_objects() if isinstance(one, (Interpreter, Expander))]
    finally:
        gc.enable()
    assert not left


def test_a_script_is_followed_anew_when_a_file_that_it_sources_has_changed(tmp_path: Path) -> None:
    def nodes() -> str:
        content = b"source ./env.sh\npython3 -m verl.trainer.main_ppo trainer.nnodes=${N:-1}\n"
        [launch] = read_script(tmp_path / "run.sh", content, ()).launches
        return str(launch.arguments[0].text)

    assert nodes() == "trainer.nnodes=1"
    for number in (2, 3):
        (tmp_path / "env.sh").write_text(f"N={number}\n")
        assert nodes() == f"trainer.nnodes={number}"
