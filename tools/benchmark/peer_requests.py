"""Requests of a benchmark to a script that does its cases in another framework, as peer_process.h sends them.

Requests come from standard input, one a line. Each is answered with a line that holds a number, or an error:
  make CASE ARGUMENT...  makes a case: 0
  run CASE COUNT         runs a case so many times and answers the seconds that took
  check CASE             answers a number that shows the last results
  save CASE PATH         writes what the case runs to files: 0
  drop CASE              forgets it: 0
"""

import os
import sys
import time
from typing import Any, Callable, Dict, List, Optional


class Case:
    """One case: what is run, a number that shows its results, and what writes it to files, if anything does."""

    def __init__(self, run: Callable[[], Any], check: Callable[[], float],
                 save: Optional[Callable[[str], Any]] = None):
        self.run = run
        self.check = check
        self.save = save


Make = Callable[[Any, str, List[str]], Case]


def answer(framework: Any, make: Make, cases: Dict[str, Case], request: List[str]) -> float:
    verb, name = request[:2]
    if verb == "make":
        cases[name] = make(framework, name, request[2:])
    elif verb == "run":
        run, count = cases[name].run, int(request[2])
        start = time.perf_counter()
        for _ in range(count):
            run()
        return time.perf_counter() - start
    elif verb == "check":
        return cases[name].check()
    elif verb == "save":
        save = cases[name].save
        if save is None:
            raise ValueError(f"case {name} cannot be saved")
        save(request[2])
    elif verb == "drop":
        del cases[name]
    return 0.0


def serve(load: Callable[[str], Any], make: Make) -> int:
    """Says "ready" and answers requests, until the input ends, by the framework that `load` makes of the command
    line's argument.

    Returns the exit status: 3 where the framework does not load.
    """
    # What a package prints goes to stderr.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    try:
        framework = load(sys.argv[1])
    except Exception as error:  # pylint: disable=broad-except
        print(f"{sys.executable}: {type(error).__name__}: {error}", file=sys.stderr)
        return 3
    answers.write("ready\n")
    cases: Dict[str, Case] = {}
    for line in sys.stdin:
        try:
            answers.write(f"{answer(framework, make, cases, line.split()):.17g}\n")
        except Exception as error:  # pylint: disable=broad-except
            message = " ".join(str(error).split())
            answers.write(f"{type(error).__name__}: {message}\n")
    return 0
