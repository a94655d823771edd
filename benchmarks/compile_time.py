"""What tensor.h costs to compile: the header alone, an expression of ten nodes, a hundred expressions.

    bazel run //benchmarks:compile_time [-- --compiler=g++ --repetitions=3 --check]

Compiles generated files with -O2, one at a time, and prints for each the fastest run's processor time
and the most memory that the compiler took, then lines `ratio CASE OURS LIMIT RATIO BOUND ok|short`.
"""

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile

_MAX_SECONDS = 20.0
_MAX_MEGABYTES = 1536.0

_UNARY = ["exp", "log", "tanh", "sqrt", "sigmoid", "relu", "abs", "sqr", "erf", "floor"]
_BINARY = [" + ", " - ", " * ", " / "]


def expression(generator, nodes):
    """The text of an expression of `nodes` operations on a, b and c, and numbers."""
    if nodes == 0:
        return generator.choice(["a", "b", "c", "c", "0.5f"])
    if nodes == 1 or generator.random() < 0.4:
        return f"{generator.choice(_UNARY)}({operand(generator, nodes - 1)})"
    left = generator.randrange(nodes)
    return (
        f"({operand(generator, left)}{generator.choice(_BINARY)}"
        f"{expression(generator, nodes - 1 - left)})"
    )


def operand(generator, nodes):
    """An expression that is not a mere number, which no function of tensors takes."""
    return expression(generator, nodes) if nodes else generator.choice(["a", "b", "c"])


def program(count, nodes):
    """A file that evaluates `count` different expressions of about `nodes` operations."""
    generator = random.Random(count * 1000 + nodes)
    texts = set()
    while len(texts) < count:
        texts.add(expression(generator, nodes))
    lines = [
        '#include "tessera/tensor/tensor.h"',
        "using namespace tessera;",
        "using Matrix = Tensor<cpu, 2, float>;",
        "void Evaluate(Matrix out, Matrix a, Matrix b, Matrix c) {",
    ]
    lines += [f"  out = {text};" for text in sorted(texts)]
    return "\n".join(lines + ["}", ""])


def compile_once(command, source):
    """Seconds of processor time, and megabytes at the peak."""
    child = os.fork()
    if child == 0:  # a process of its own, whose children's usage is this compilation's alone
        status = subprocess.run(command + [source, "-o", os.devnull], check=False).returncode
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        with open(source + ".usage", "w", encoding="utf-8") as file:
            file.write(f"{usage.ru_utime + usage.ru_stime} {usage.ru_maxrss / 1024}")
        os._exit(0 if status == 0 else 1)
    if os.waitpid(child, 0)[1] != 0:
        sys.exit(f"compile_time: {' '.join(command)} failed")
    with open(source + ".usage", encoding="utf-8") as file:
        return tuple(float(word) for word in file.read().split())


def main():
    parser = argparse.ArgumentParser(description="Measures what tensor.h costs to compile.")
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--eigen", default="/usr/include/eigen3", help="folder that has Eigen/Core")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a case is short")
    arguments = parser.parse_args()
    root = os.environ.get("BUILD_WORKSPACE_DIRECTORY", os.getcwd())
    cases = {
        "empty": "",
        "Eigen/Core": "#include <Eigen/Core>\n",
        "tensor.h": '#include "tessera/tensor/tensor.h"\n',
        "1 expression of 10": program(1, 10),
        "10 expressions of 10": program(10, 10),
        "100 expressions of 1 to 3": program(100, 2),
        "100 expressions of 10": program(100, 10),
    }
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(root, os.path.join(folder, "tessera"))
        command = [arguments.compiler, "-std=c++20", "-O2", "-c"]
        command += [f"-I{folder}", f"-isystem{arguments.eigen}"]
        for number, (name, text) in enumerate(cases.items()):
            source = os.path.join(folder, f"case{number}.cc")
            with open(source, "w", encoding="utf-8") as file:
                file.write(text)
            runs = [compile_once(command, source) for _ in range(arguments.repetitions)]
            results[name] = (min(run[0] for run in runs), max(run[1] for run in runs))
            print(f"{name:28} {results[name][0]:7.2f} s {results[name][1]:7.0f} MB", flush=True)
    short = False
    for name in ("100 expressions of 1 to 3", "100 expressions of 10"):
        for value, limit, unit in zip(results[name], (_MAX_SECONDS, _MAX_MEGABYTES), ("s", "MB")):
            verdict = "ok" if value <= limit else "short"
            short = short or value > limit
            case = f"compile/{name}/{unit}".replace(" ", "_")
            print(f"ratio {case} {value:.2f}{unit} {limit:g}{unit} {limit / value:.2f} 1 {verdict}")
    return 1 if arguments.check and short else 0


if __name__ == "__main__":
    sys.exit(main())
