"""Compile the kernels for GPUs that are not here; run in a process in which nothing is interpreted.

Prints one line of JSON for each target: shared memory and the instructions that matter.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import triton
from triton import language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

from tuner.kernels import dlogits, forward, hopper, hopper_dlogits, hopper_forward
from tuner.kernels.tiles import Tile

Block = tuple[int, int]
TARGETS = {
    "hopper": (GPUTarget("cuda", 90, 32), (128, 256, 64, 4)),
    "hopper, half lines": (GPUTarget("cuda", 90, 32), (128, 256, 32, 8)),
    "ampere": (GPUTarget("cuda", 80, 32), (128, 128, 32, 3)),
    "blackwell": (GPUTarget("cuda", 100, 32), (128, 256, 64, 3)),
    "mi300": (GPUTarget("hip", "gfx942", 64), (128, 128, 32, 3)),
}
POINTERS = {
    "labels": "*i32",
    "inverse_temperature": "*fp32",
    "partials": "*fp32",
    "row_extremes": "*fp64",
    "coefficients": "*fp32",
}


def source(
    make: Callable[..., Any], kernel: Any, constants: dict[str, Any], matrices: dict[str, str]
) -> ASTSource:
    """What the compiler takes, with every pointer and stride a multiple of 16."""
    signature = {
        name: "constexpr" if name in constants else {**POINTERS, **matrices}.get(name, "i32")
        for name in kernel.arg_names
    }
    aligned = {
        (number,): [["tt.divisibility", 16]]
        for number, name in enumerate(kernel.arg_names)
        if name == "H" or name.endswith("_stride") or signature[name].startswith("*")
    }
    values = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    return make(fn=kernel, signature=signature, constexprs=values, attrs=aligned)


def portable(kernel: Any, target: str, constants: dict[str, Any], matrices: list[str]) -> Any:
    """A kernel in Triton with bfloat16 matrices."""
    gpu, (rows, columns, depth, stages) = TARGETS[target]
    sizes = {"ROWS": rows, "COLUMNS": columns, "DEPTH": depth, "STAGES": stages, "GROUP": 16}
    constants = {**constants, **sizes, "INTERPRETED": False, "DTYPE": tl.bfloat16}
    compiled = source(ASTSource, kernel, constants, dict.fromkeys(matrices, "*bf16"))
    return triton.compile(compiled, target=gpu, options={"num_warps": 8, "num_stages": stages})


def on_hopper(
    kernel: Any, target: str, constants: dict[str, Any], blocks: dict[str, Block], *, storing: bool
) -> Any:
    """A kernel in Gluon with bfloat16 matrices."""
    gpu, (rows, columns, depth, stages) = TARGETS[target]
    tile = Tile(rows=rows, columns=columns, depth=depth, stages=stages, warps=4, group=16, programs=132)
    slots = hopper.slots(tile, storing=storing)
    sizes = {"ROWS": rows, "COLUMNS": columns, "DEPTH": depth, "STAGES": slots, "GROUP": 16}
    registers = {
        "GROUP_REGISTERS": hopper.GROUP_REGISTERS,
        "LOADING_REGISTERS": hopper.LOADING_REGISTERS,
    }
    blocks = {"hidden": (rows // 2, depth), "weight": (columns, depth), **blocks}
    matrices = {
        name: f"tensordesc<bf16[{block[0]},{block[1]}],"
        f"{gl.NVMMASharedLayout.get_default_for(list(block), gl.bfloat16)!r}>"
        for name, block in blocks.items()
    }
    compiled = source(GluonASTSource, kernel, {**constants, **sizes, **registers}, matrices)
    return triton.compile(compiled, target=gpu, options={"num_warps": 4, "maxnreg": hopper.PLANNED_REGISTERS})


def kernels_for(target: str) -> list[Any]:
    if not target.startswith("hopper"):
        inputs = ["hidden", "weight"]
        return [
            portable(forward._statistics, target, {"SAVE": True, "ALL_OR_NONE": True}, [*inputs, "saved"]),
            portable(dlogits._recompute, target, {}, [*inputs, "d_logits"]),
        ]
    _, (rows, columns, depth, _) = TARGETS[target]
    unused, stored = (rows // 2, depth), (rows // 2, columns)
    statistics, gradient = hopper_forward._statistics, hopper_dlogits._recompute
    return [
        on_hopper(statistics, target, {"SAVE": False, "ALL_OR_NONE": True}, {"saved": unused}, storing=False),
        on_hopper(statistics, target, {"SAVE": True, "ALL_OR_NONE": True}, {"saved": stored}, storing=True),
        on_hopper(gradient, target, {}, {"d_logits": stored}, storing=True),
    ]


def main() -> None:
    for target in sys.argv[1:]:
        kernels = kernels_for(target)
        code = "".join(kernel.asm.get("ptx", kernel.asm.get("amdgcn", "")) for kernel in kernels)
        print(
            json.dumps(
                {
                    "target": target,
                    "shared_bytes": max(kernel.metadata.shared for kernel in kernels),
                    "matrix_instructions": sum(
                        map(code.count, ("wgmma.mma", "mma.sync", "tcgen05.mma", "v_mfma"))
                    ),
                    "copy_engine": code.count("cp.async.bulk.tensor"),
                }
            )
        )


if __name__ == "__main__":
    main()
