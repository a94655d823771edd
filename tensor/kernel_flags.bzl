"""For which instruction sets kernels are compiled, and how."""

# The instruction sets that kernels are compiled for on x86-64, and the flags for them.
KERNEL_FLAGS = [
    (
        "baseline",
        [],
    ),
    (
        "avx2",
        [
            "-mavx2",
            "-mfma",
            "-mno-avx512f",
        ],
    ),
    (
        "avx512",
        [
            "-mavx2",
            "-mfma",
            "-mavx512f",
            "-mavx512dq",
            "-mavx512bw",
            "-mavx512vl",
            # g++ 12 takes the undefined operand of its own intrinsics for a mistake.
            "-Wno-uninitialized",
            "-Wno-maybe-uninitialized",
        ],
    ),
]

# What is dispatched at run time is tested for every instruction set; a machine that lacks one runs
# the best that it has.
INSTRUCTION_SETS = {
    isa: {"TESSERA_INSTRUCTION_SET": isa}
    for isa in [
        "baseline",
        "avx2",
        "avx512",
    ]
}
