#!/usr/bin/python3
"""Commands of documents, taken out of them, run in the playground (docs/playground) and compared with the output that the documents
show.

A block ```console has commands behind "$ " and, below each, its output; "> " goes on with a command. Words behind ```console: `slow`
leaves the block to the long tests, any other one names a lane. Lanes run beside each other, the blocks of a lane in order, in one
shell. A block ```sh has commands without output.

    documents.py --write FILE...    puts the output of now into the documents
"""
import contextlib
import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FENCE = re.compile(r"^```(console|sh)((?: [\w-]+)*)\n(.*?)^```$", re.M | re.S)
PATIENCE = int(os.environ.get("DOCUMENTS_PATIENCE", "120"))  # seconds; commands end by themselves
NUMBER = r"-?(?:\d+\.\d+|\d+)"


class Step:
    """A command, and the lines below it."""

    def __init__(self, command, shown):
        self.command, self.shown = command, shown


class Block:
    """A fenced block of a document."""

    def __init__(self, heading, kind, words, body, span):
        self.heading, self.kind, self.span = heading, kind, span
        self.slow = "slow" in words
        self.lane = next((word for word in words if word != "slow"), "")
        self.steps = steps(body) if kind == "console" else [Step(line.partition("  #")[0].strip(), None) for line in body.splitlines()]

    def text(self):
        lines = []
        for step in self.steps:
            first, *more = step.command.split("\n")
            lines += ["$ " + first, *("> " + line for line in more), *step.shown]
        return "".join(line + "\n" for line in lines)


def steps(body):
    found, going_on = [], False
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append(Step(line[2:], []))
            going_on = True
        elif going_on and line.startswith("> "):
            found[-1].command += "\n" + line[2:]
        else:
            going_on = False
            found[-1].shown.append(line)
    return found


def blocks(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    found = []
    for fence in FENCE.finditer(text):
        heading = re.findall(r"^#+ (.*)$", text[:fence.start()], re.M)
        found.append(Block(heading[-1] if heading else "", fence[1], fence[2].split(), fence[3], fence.span(3)))
    return found


# ---- running -----------------------------------------------------------------------------------------------------

class Shell:
    """A bash that runs commands one after the other, each with its output in a file, as on one terminal."""

    def __init__(self, folder, environment=None):
        self.folder, self.number = folder, 0
        self.status_end, writing = os.pipe()
        self.process = subprocess.Popen(["bash", "--norc"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        start_new_session=True, text=True, pass_fds=[writing], env={**os.environ, "COLUMNS": "100", **(environment or {})})
        self.writing = writing

    def run(self, command):
        """Gives (exit status, output)."""
        if self.process.poll() is not None:
            return -1, "the shell has ended"
        self.number += 1
        path = os.path.join(self.folder, f"output-{self.number}")
        self.process.stdin.write(f"{{ {command}\n}} </dev/null >>{path} 2>&1 {self.writing}>&-\necho $? >&{self.writing}\n")
        self.process.stdin.flush()
        status = b""
        while not status.endswith(b"\n"):
            if not select.select([self.status_end], [], [], PATIENCE)[0]:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
                return -1, f"no end after {PATIENCE} s: {command}"
            status += os.read(self.status_end, 16)
        with open(path, encoding="utf-8", errors="replace") as file:
            return int(status), file.read()

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(PATIENCE)
        os.close(self.status_end)
        os.close(self.writing)


def run_lane(lane, results):
    with tempfile.TemporaryDirectory(dir=os.environ.get("PLAYGROUND")) as folder:
        shell = Shell(folder)
        for index, commands in lane:
            results[index] = [shell.run(command) for command in commands]
        shell.close()


def run_lanes(lanes):
    """Runs lists of (index, commands), the lists beside each other; gives {index: [(status, output), ...]}."""
    results = {}
    threads = [threading.Thread(target=run_lane, args=(lane, results)) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def pace(build, folder):
    """Makes a build folder in which times by the clock last until the servers have worked that long (documents_pace.py); headers are
    beside it, as in the tree."""
    os.chmod(folder, 0o755)
    os.symlink(os.path.join(ROOT, "include"), os.path.join(folder, "include"))
    folder = os.path.join(folder, "build")
    os.mkdir(folder)
    for name in os.listdir(build):
        if name != "dyntrace":
            os.symlink(os.path.join(build, name), os.path.join(folder, name))
    paced, real = shlex.quote(os.path.join(os.path.dirname(os.path.abspath(__file__)), "documents_pace.py")), shlex.quote(os.path.join(build, "dyntrace"))
    for name, text in {"dyntrace": f"""case " $* " in *' --for '*) exec {paced} dyntrace {real} "$@";; esac\nexec {real} "$@"\n""",
                       "sleep": f"""case "$1" in 0.*) exec /bin/sleep "$1";; esac\nexec {paced} sleep "$1"\n"""}.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + text)
        os.chmod(file.name, 0o755)
    return folder


def in_playground(build, chosen, environment=None):
    """Runs blocks in a playground of their own: {index of the block: [(status, output), ...]}."""
    lanes = {}
    for index, block in enumerate(chosen):
        lanes.setdefault(block.lane, []).append((index, [step.command for step in block.steps]))
    with tempfile.NamedTemporaryFile("w+", suffix=".json") as task, tempfile.NamedTemporaryFile("r", suffix=".json") as answer:
        json.dump(list(lanes.values()), task)
        task.flush()
        done = subprocess.run([os.path.join(ROOT, "docs", "playground", "enter"), "/usr/bin/python3", os.path.abspath(__file__),
                               "--inside", task.name, answer.name], capture_output=True, text=True,
                              env={**os.environ, "DYNTRACE_BUILD": build, "TZ": "UTC", **(environment or {})})
        assert done.returncode == 0, done.stdout + done.stderr
        return {int(index): result for index, result in json.load(answer).items()}


# ---- comparing ---------------------------------------------------------------------------------------------------

def shape(line):
    """A line without its numbers, times, units, addresses and widths: lines of the same shape say the same about other events."""
    if re.search(r" \.\. .*\|", line):
        return "a row of a histogram"
    if call := re.match(r"[ .\d]*(?:[num]?s)? \[\d+\] \|[ }]*([\w-]+)", line):
        return f"a call of {call[1]} in a tree"  # on one line or on two, as other threads' events come between
    line = re.sub(r"0x[0-9a-fA-F]+", "#", line)
    line = re.sub(r"\[?\b\d\d:\d\d:\d\d\.\d+\]?(?: \(\+[\d?.]+\))?", "TIME", line)
    line = re.sub(r"/var/tmp/playground-\w+", "PLAYGROUND", line)
    line = re.sub(r"\b\d{8}-\d{6}\b", "DATE", line)
    line = re.sub(rf"{NUMBER} ?(?:ns|us|ms|s|MiB|KiB|B|K|M|G|%|x)(?![\w])", "#", line)
    line = re.sub(rf"(?<![A-Za-z_]){NUMBER}(?![A-Za-z_])", "#", line)
    line = re.sub(r"([+-])?#", "#", line)
    return " ".join(line.split())


def matters(line):
    """Calls that a recording cut at its ends have a line of their own, in some runs."""
    return line.strip() and not re.match(r"calls without an exit|\(\d+ calls? in paths below", line)


def differences(shown, output):
    """What one has and the other hasn't, by shape; a shown line "..." stands for any lines."""
    told, real = list(filter(matters, shown)), list(filter(matters, output.splitlines()))
    open_ended = any(line.strip() == "..." for line in told)
    wanted, found = {shape(line): line for line in told if line.strip() != "..."}, {shape(line): line for line in real}
    missing = [line for key, line in wanted.items() if key not in found]
    surplus = [] if open_ended else [line for key, line in found.items() if key not in wanted]
    return missing, surplus


def write(path, build):
    """Puts the output of now into a document; "..." stays, behind as many lines as before it; alone, all lines take its place. Leaves slow blocks alone."""
    chosen = [block for block in blocks(path) if block.kind == "console" and not block.slow]
    results = in_playground(build, chosen)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for index, block in reversed(list(enumerate(chosen))):
        for step, (status, output) in zip(block.steps, results[index]):
            if status:
                print(f"{path}: {step.command}: exit status {status}\n{output}", file=sys.stderr)
            lines = output.splitlines()
            cut = next((i for i, line in enumerate(step.shown) if line.strip() == "..."), None)
            step.shown = lines[:cut] + ["..."] if cut and len(lines) > cut else lines
        text = text[:block.span[0]] + block.text() + text[block.span[1]:]
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    if sys.argv[1] == "--inside":
        with open(sys.argv[2], encoding="utf-8") as file:
            answer = run_lanes(json.load(file))
        with open(sys.argv[3], "w", encoding="utf-8") as file:
            json.dump(answer, file)
    elif sys.argv[1] == "--write":
        for name in sys.argv[2:]:
            write(name, os.environ.get("DYNTRACE_BUILD", os.path.join(ROOT, "build")))
