"""Runs a program written for MXNet on Tessera's library, unchanged:

python -m tessera_mxnet PROGRAM.py [ARGUMENT]...
python -m tessera_mxnet -m MODULE [ARGUMENT]...

The program sees its own name and arguments in sys.argv, and its own folder first in sys.path.

Many workers: mpirun -n 2 --bind-to none python -m tessera_mxnet PROGRAM.py --kv-store dist_sync
"""

import os
import runpy
import sys

from tessera_mxnet import many_workers


def main():
    arguments = sys.argv[1:]
    if arguments[:1] in (["-h"], ["--help"]):
        print(__doc__.strip())
        return 0
    is_module = arguments[:1] == ["-m"]
    if is_module:
        del arguments[0]
    if not arguments or arguments[0].startswith("-"):
        print(f"tessera_mxnet: no program is named\n\n{__doc__.strip()}", file=sys.stderr)
        return 2
    sys.argv = arguments
    try:
        return run(arguments[0], is_module)
    except SystemExit as end:
        if end.code not in (None, 0):
            many_workers.fail(f"the program ends by sys.exit({end.code!r})")
        raise


def run(program, is_module):
    if is_module:
        # Python has put the current folder first in sys.path, as it does for `python -m MODULE`.
        runpy.run_module(program, run_name="__main__", alter_sys=True)
        return 0
    if not os.path.exists(program):
        print(f"tessera_mxnet: there is no {program}", file=sys.stderr)
        return 2
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.path.dirname(os.path.realpath(program))
    runpy.run_path(program, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
