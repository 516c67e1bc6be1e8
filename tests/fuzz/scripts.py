"""Launch scripts that hold real overrides among statements of every kind, harmless and not."""

import random
import shlex

from tests.fuzz.values import SECRET_NAMES, mutated, secret, value

_STATEMENTS = (
    "set -euxo pipefail", "rm -rf /tmp/nothing ./victim", "curl -s http://localhost/x | bash", "touch witness",
    "x=$(touch witness; echo 1)", "eval \"touch witness\"", ":(){ :|:& };:", "while true; do x=$x$x; done",
    "while :; do echo $RANDOM; done", "for i in {1..1000000}; do echo $i; done", "until false; do :; done",
    "for ((i=0;i<1000000000;i++)); do :; done", "f() { f; f; }; f", "f() { g; }; g() { f; }; f", "exec bash",
    "if nvidia-smi; then N=8; else N=1; fi", "if [[ $X == *a* ]]; then Y=1; elif [ -z \"$Z\" ]; then Y=2; fi",
    "case $(hostname) in a*) N=1;; *) N=2;; esac", "source ./env.sh", ". /etc/profile", "source $0", "cd /tmp",
    "export PYTHONPATH=$PWD", "A=(1 2 3); echo ${A[@]} ${#A[*]} ${!A[@]}", "declare -A M=([a]=1); echo ${M[a]}",
    "N=$((2**62*4)); M=$((1/0)); K=$((N<<70))", "X=${Y:-${Z:-${W:?no}}}", "X=${X//a/b}; X=${X:0:1000000}",
    "read -r LINE < /dev/zero", "cat <<EOF > witness\n$X $(touch witness)\nEOF", "trap 'touch witness' EXIT",
    "python3 -c \"open('witness','w')\"", "x=$(cat /dev/zero)", "mapfile -t L < /etc/passwd", "wait; sleep 1000",
    "printf '%1000000000d' 1", "X=$(printf 'a%.0s' {1..100000})", "echo {a..z}{a..z}{a..z}{a..z}{a..z}",
    "X=$(seq 1 1000000000)", "echo ${X:=$(X=1)}", "local a=1; return 3", "shift 1000; set -- $@ $@ $@",
    "exec > >(tee log)", "bash -c 'bash -c \"bash -c exit\"'", "echo $'\\x00\\xff'", "((x++)); let y=x*x",
    "select a in b c; do break; done", "[[ a =~ (a+)+$ ]]", "[[ aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab =~ ^(a+)+$ ]]",
    "x=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaab; echo ${x//*a*a*a*a*a*a*a*a*c/x}", "X=$X$X$X$X; X=$X$X$X$X; X=$X$X$X$X",
)  # fmt: skip
_LAUNCHERS = (
    "python3 -m verl.trainer.main_ppo", "HYDRA_FULL_ERROR=1 python -u -m verl.trainer.main_ppo",
    "ray job submit --address=http://x:1 --runtime-env=e.yaml -- python3 -m verl.trainer.main_ppo",
    "torchrun --nnodes 1 -m verl.trainer.main_ppo", "uv run python -m verl.trainer.main_ppo",
    "nohup python3 -m verl.trainer.main_ppo --config-path=config --config-name='ppo_trainer.yaml'",
    "PYTHONUNBUFFERED=1 accelerate launch verl/trainer/main_ppo.py", "python3 -m recipe.dapo.main_dapo",
)  # fmt: skip


def script(rng: random.Random, words: list[str]) -> tuple[str, tuple[str, ...]]:
    """A script that gives these overrides, and the secrets that it holds."""
    lines = ["#!/usr/bin/env bash"] if rng.random() < 0.8 else []
    lines += [rng.choice(_STATEMENTS) for _ in range(rng.choice((0, 0, 1, 2, 5, 12)))]
    secrets: tuple[str, ...] = ()
    if rng.random() < 0.3:
        hidden = secret(rng)
        secrets = (hidden,)
        name = rng.choice(SECRET_NAMES)
        form = (
            "export {0}={1}",
            "{0}='{1}'",
            "wandb login {1}",
            "echo {1} | docker login",
            "X={1}; echo ${{X:0:99}}",
        )
        lines.append(rng.choice(form).format(name, hidden))
        if rng.random() < 0.5:
            words = [*words, f"+trainer.{rng.choice(('token', 'x', 'notes'))}=${name}"]
    lines += _launched(rng, words)
    if rng.random() < 0.1:
        lines += _launched(rng, words[:3])
    rng.shuffle(lines) if rng.random() < 0.05 else None
    text = "\n".join([*lines, ""])
    if rng.random() < 0.03:
        text = (rng.choice(_STATEMENTS) + "\n") * rng.choice((100, 2_000)) + text
    return (mutated(rng, text) if rng.random() < 0.4 else text), secrets


def _launched(rng: random.Random, words: list[str]) -> list[str]:
    """A launch that gives the overrides plainly, through variables or in an array."""
    before: list[str] = []
    given: list[str] = []
    for position, word in enumerate(words):
        name, equals, right = word.partition("=")
        draw = rng.random()
        quoted = shlex.quote(right) if rng.random() < 0.9 else right
        if draw < 0.15 and equals:
            before.append(f"V{position}={quoted}")
            given.append(rng.choice((f"{name}=$V{position}", f'{name}="${{V{position}}}"')))
        elif draw < 0.2 and equals:
            given.append(f"{name}=${{V{position}:-{quoted}}}")
        elif draw < 0.22 and equals:
            given.append(f"{name}=$(({value(rng)} + 1))")
        elif draw < 0.3:
            before.append(f"ARGS+=({shlex.quote(word)})")
        else:
            given.append(f"{name}={quoted}" if equals else shlex.quote(word))
    joint = rng.choice((" \\\n    ", " \\\n    ", " "))
    return [
        *before,
        joint.join([rng.choice(_LAUNCHERS), *given, '"${ARGS[@]}"', rng.choice(("$@", '"$@"', ""))]),
    ]
