"""What a program is started with, held against bash, which runs the same script with stubs for programs."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tuner.inputs.machine import TargetMachine, read_for
from tuner.inputs.script import read_script

BASH = shutil.which("bash")
TELL = 'printf "%s\\0" "${0##*/}" "$@" >> "$RECORD"; printf "\\n\\0" >> "$RECORD"'
ASKED = (
    '[ "$1" = - ] && { echo cuda; exit; }\n'
    '[ "$1" = -c ] && { case $2 in *npu*) exit 1;; *) echo 4; exit 0;; esac; }\n'
)
STUBS = {
    "python3": f"{ASKED}{TELL}",
    "torchrun": TELL,
    "uv": TELL,
    "nvidia-smi": 'for i in 0 1 2 3; do echo "GPU $i"; done',
}
INNER = 'python3 -m inner.module x.root=${ROOT:-none} x.two="$2" x.more=$# y.name=$(basename "$0") "${@:3}"'

# Each starts one program with overrides; what lies beside the script is INNER, as part/inner.sh.
SCRIPTS = (
    "DEVICE=${DEVICE:-$(python3 -c 'import torch_npu' 2>/dev/null && echo npu || echo gpu)}\n"
    'case "$DEVICE" in gpu) n=8;; npu) n=16;; esac\npython3 -m a.b x.n=$n x.device=$DEVICE',
    "N=$(nvidia-smi -L | wc -l); M=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)\n"
    "K=$(python3 -c 'import torch; print(torch.cuda.device_count())')\npython3 -m a.b x.n=$N x.m=$M x.k=$K",
    "if command -v npu-smi > /dev/null 2>&1; then d=npu; else d=gpu; fi\npython3 -m a.b x.d=$d",
    "if [ -e /dev/davinci0 ] || [[ -d /usr/local/Ascend ]]; then d=npu; else d=gpu; fi\n"
    "python3 -m a.b x.d=$d",
    "D=$(python3 - <<'EOF'\nfrom verl.utils.device import get_device_name\nprint(get_device_name())\nEOF\n)\n"
    '[ -n "$D" ] && [ "$D" == cuda ] && python3 -m a.b x.d=$D\n[ "$D" == npu ] && python3 -m a.c x.d=$D',
    "which npu-smi &> /dev/null && D=npu; python3 -m a.b x.d=${D:-gpu}",
    'LAUNCH=(python3)\nif [ "${USE_UV:-1}" != 0 ]; then LAUNCH=(uv run --extra vllm python3); fi\n'
    '"${LAUNCH[@]}" -m a.b x.y=1 "$@"',
    "uv run --frozen -m a.b x.y=1",
    "uv run --extra x torchrun --nproc_per_node=2 -m a.b x.y=1",
    'ENTRYPOINT=${ENTRYPOINT:-"-m a.sft"}\ntorchrun --nproc_per_node=8 ${ENTRYPOINT} x.y=1',
    'python3 -m a.b x.y="$(echo 1; echo 2)" x.z=$(printf "%s," 1 2)',
    "exec python3 -m a.b x.y=1; python3 -m a.c x.y=2",
    "f() { exec torchrun -m a.b x.y=$1; }\nf 3\ntorchrun -m a.c x.y=2",
    "a=1024; python3 -m a.b x.y=${n:-$(((a + 2048) * 2))} x.z={1..3}",
    'ROOT="$( cd "$( dirname "${BASH_SOURCE[0]}" )" && pwd )"\nbash "$ROOT/part/inner.sh" a "b c" x.y=1',
    'export ROOT="$(cd "$(dirname "$0")" && pwd)"\nbash "$ROOT/part/inner.sh" a "b c" x.y=1',
    "export ROOT=r; NOT=s; ROOT=t bash part/inner.sh a b x.y=$NOT",
    'HERE=$(dirname "$(realpath "$0")"); cd "$HERE/part/.."; python3 -m a.b x.here=$HERE x.now=$(pwd)',
    'HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")/part" && pwd -P)"\npython3 -m a.b x.y="$HERE"',
    'exec "$(cd "$(dirname "$0")" && pwd)/part/inner.sh" a "b c" x.y=1\npython3 -m a.b x.never=1',
    "export ROOT=r; ./part/inner.sh a b x.y=1; rc=$?\nexit $rc",
    "P=${P:-python3}\n[[ $P == */* ]] || { P=$(command -v $P) || exit 1; }\n"
    'P=$(basename "$P"); "$P" -m a.b x.p=$P',
    'R="uv run --no-sync python3"; E=${PYTHON_IMAGE:-}; { $E ${R} -m a.b x.y=1; }',
    'source part/../part/inner.sh q "r s" z.z=1',
    "set -a; ROOT=all; set +a\nbash part/inner.sh 1 2",
    'warn() { echo "$1" >&2; }\nV=$(warn no; echo 3; echo lost > /dev/null; echo 4 >> log)\n'
    "python3 -m a.b x.y=$V",
    "[[ ${BASH_SOURCE[0]} == $0 ]] && A=(x.main=1)\npython3 -m a.b x.y=1 ${A[@]}",
    'bash -c "python3 -m a.b x.y=\\$1 x.z=\\$0" zero one',
    "A=0; B=0; C=0\n! true | true | false && A=1\n! true | true | true && B=1\n"
    "! true | true | true | false && A=${A}2 || C=3\npython3 -m a.b x.a=$A x.b=$B x.c=$C",
    "A=0; B=0; true | true | true && A=1; true | true | false || B=2; true | A=9 | true && A=${A}3\n"
    "if ! true | true | false && true; then B=${B}4; fi\npython3 -m a.b x.a=$A x.b=$B",
    "no() {\n    local a=1\n    [ $a = 2 ]\n    # says that it is not\n}\nif no; then exit 0; fi\n"
    "A=0; ( false; ) || A=1; { false; } && A=2\npython3 -m a.b x.a=$A",
    'done_before() {\n    local c\n    c="$(find "$1" -name "step_*" | tail -n 1 || true)"\n'
    '    [ -n "$c" ] && [ -f "$c/config.json" ]\n}\nrun() {\n    if done_before "out/$1"; then return 0; fi\n'
    "    python3 -m a.b x.a=$2\n}\nmkdir -p out/one; run one 256",
    'N=4; D=made_$(echo 1); mkdir -p "$D"\ncat > "$D/go.sh" <<CMD\ncd part\npython3 -m a.b \\\\\n'
    '  x.n=$N x.o="\\$1" x.l=\'["a","b"]\' x.m=\\${M:-5}\nCMD\n'
    'chmod +x "$D/go.sh"; time bash "$D/go.sh" one 2>&1 | tee log',
    "cat <<'E' > go.sh\npython3 -m a.b x.n=$1 x.m=\"a\\\\b\"\nE\nN=1; . ./go.sh 7",
    'echo "#!/bin/bash" > go.sh\necho "python3 -m a.b x.n=$((2 * 3)) \\"\\$@\\"" >> go.sh\n'
    'chmod +x go.sh\n./go.sh "x.y=a b"',
    "cat > part/inner.sh <<E\npython3 -m a.b x.written=1\nE\nbash part/inner.sh",
)


@pytest.mark.skipif(BASH is None, reason="needs bash to compare with")
@pytest.mark.parametrize("content", SCRIPTS)
def test_a_program_gets_what_bash_gives_it(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "work"
    (folder / "part").mkdir(parents=True)
    (folder / "part/inner.sh").write_text(f"#!{BASH}\n{INNER}")
    (folder / "part/inner.sh").chmod(0o755)
    (folder / "run.sh").write_text(content)
    monkeypatch.chdir(folder)
    with read_for(TargetMachine(per_node=4)):
        (launch,) = read_script(Path("run.sh"), content.encode(), ()).launches
    arguments = [str(argument.text) for argument in launch.arguments]
    assert arguments
    assert started(tmp_path / "stubs", folder)[-len(arguments) - 1 :] == [launch.program, *arguments]


def started(stubs: Path, folder: Path) -> list[str]:
    """The words of the first program with overrides that bash starts."""
    assert BASH is not None
    stubs.mkdir()
    for name, content in STUBS.items():
        (stubs / name).write_text(f"#!{BASH}\n{content}\n")
        (stubs / name).chmod(0o755)
    record = folder.parent / "record"
    environment = {"PATH": f"{stubs}{os.pathsep}/usr/bin{os.pathsep}/bin", "RECORD": str(record)}
    subprocess.run(
        [BASH, "--norc", "run.sh"], cwd=folder, env=environment, timeout=20, check=False, capture_output=True
    )
    programs = [program.strip("\0").split("\0") for program in record.read_text().split("\n\0")]
    return next(words for words in programs if any("=" in word for word in words))
