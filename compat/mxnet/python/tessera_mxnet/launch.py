"""Starts a program on many workers, with the options of MXNet's tools/launch.py:

python -m tessera_mxnet.launch -n WORKERS [-H HOSTFILE] [--launcher local|ssh|mpi] PROGRAM [ARGUMENT]...

mpirun starts the workers. There are no servers, so that -s changes nothing; a program in Python is started by
python -m tessera_mxnet PROGRAM.py.
"""

import argparse
import os
import subprocess
import sys


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m tessera_mxnet.launch", description="Starts a program on many workers, by mpirun.")
    parser.add_argument("--num-workers", "-n", type=int, required=True, help="how many workers to start")
    parser.add_argument("--num-servers", "-s", type=int, help="changes nothing: there are no servers")
    parser.add_argument("--hostfile", "-H", help="a file with a machine on each line; without one, this machine")
    parser.add_argument("--launcher", choices=("local", "ssh", "mpi"), default="ssh",
                        help="local: on this machine alone; mpirun starts other machines' workers by ssh")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE",
                        help="a variable of the workers' environment; may be repeated")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the program and its arguments")
    options = parser.parse_args(arguments)
    if options.num_workers < 1:
        parser.error(f"-n is {options.num_workers}, expected 1 or more workers")
    if not options.command:
        parser.error("no program is named")
    for setting in options.env:
        if "=" not in setting:
            parser.error(f"--env is {setting}, expected NAME=VALUE")
    return options


def is_open_mpi():
    said = subprocess.run(["mpirun", "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          universal_newlines=True).stdout
    return "Open MPI" in said


def command_of(options, open_mpi):
    """The command that starts the workers. Machines take turns, as with MXNet's launcher."""
    command = ["mpirun", "-n", str(options.num_workers), "--bind-to", "none"]
    if open_mpi:
        command.append("--oversubscribe")  # MXNet's launcher does not count cores
    if options.hostfile is not None and options.launcher != "local":
        command += ["--hostfile", options.hostfile, "--map-by", "node"] if open_mpi else ["-f", options.hostfile]
    for setting in options.env:
        name, _, value = setting.partition("=")
        command += ["-x", setting] if open_mpi else ["-genv", name, value]
    return command + options.command


def main():
    options = parse(sys.argv[1:])
    try:
        command = command_of(options, is_open_mpi())
        os.execvp(command[0], command)
    except FileNotFoundError:
        print("tessera_mxnet.launch: there is no mpirun; install an MPI (Debian: apt-get install openmpi-bin)",
              file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
