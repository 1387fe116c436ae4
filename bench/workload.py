"""The workload as a process: start it, run its loops, look at its text."""

import os
import signal
import subprocess
import time

DEADLINE = 20.0  # seconds; nothing here takes longer unless it is broken


def wait_until(condition, what, process=None):
    """Polls until condition() holds; says what never came."""
    end = time.monotonic() + DEADLINE
    while not condition():
        if process is not None and process.poll() is not None:
            raise RuntimeError(f"{what}: it ended with status {process.returncode}")
        if time.monotonic() > end:
            raise RuntimeError(f"{what}: not within {DEADLINE:.0f} s")
        time.sleep(0.002)


def interrupt(process):
    """Ends a tracer as Ctrl-C does; its stdout and stderr. One that doesn't end is killed."""
    process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=3 * DEADLINE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise RuntimeError(f"{process.args[0]} did not end within {3 * DEADLINE:.0f} s of Ctrl-C") from None


class Workload:
    """One process of bench/workload. `prefix` is a command that runs it (nsenter, uftrace)."""

    def __init__(self, program, prefix=(), env=None):
        self.program = program
        ready_read, ready_write = os.pipe()
        go_read, self._go = os.pipe()
        command = [*prefix, program, "--ready-fd", str(ready_write), "--go-fd", str(go_read)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, pass_fds=(ready_write, go_read), env={**os.environ, **(env or {})})
        os.close(ready_write)
        os.close(go_read)
        self.ready = os.read(ready_read, 1) == b"r"
        os.close(ready_read)
        if not self.ready:
            self.end()
            raise RuntimeError(f"{command[0]} did not start the workload: {self.errors.strip()}")

    @property
    def pid(self):
        return self.process.pid

    def go(self):
        os.write(self._go, b"g")

    def measure(self, kind, calls, threads):
        """Nanoseconds of CPU time that a call took in the slowest of the threads."""
        self.process.stdin.write(f"{kind} {calls} {threads}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if len(answer) != 2 * threads:
            raise RuntimeError(f"the workload ended: status {self.process.wait()}")
        return max(float(ns) for ns in answer[0::2])

    def text(self, symbol, count=5):
        """The bytes at a function's entry, as they are in memory now."""
        with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as memory:
            memory.seek(self.base() + symbol_offset(self.program, symbol))
            return memory.read(count)

    def base(self):
        with open(f"/proc/{self.pid}/maps") as maps:
            for line in maps:
                fields = line.split()
                if len(fields) == 6 and fields[5] == os.path.realpath(self.program):
                    return int(fields[0].split("-")[0], 16) - int(fields[2], 16)
        raise RuntimeError("the workload isn't mapped")

    def wait_patched(self, symbol, tracer):
        """Until the tracer has changed that function's first bytes."""
        wait_until(lambda: self.text(symbol) != self.original(symbol),
                   f"placing a probe in {symbol}", tracer)

    def original(self, symbol, count=5):
        """The same bytes as the file has them; the program is linked so that both offsets agree."""
        with open(self.program, "rb") as file:
            file.seek(symbol_offset(self.program, symbol))
            return file.read(count)

    def end(self):
        """Ends it by closing its stdin."""
        if self._go is not None:
            os.close(self._go)
            self._go = None
            _, self.errors = self.process.communicate()


_symbols = {}


def symbol_offset(program, symbol):
    if program not in _symbols:
        lines = subprocess.run(["nm", "--defined-only", program], check=True, text=True,
                               stdout=subprocess.PIPE).stdout.splitlines()
        _symbols[program] = {name: int(address, 16)
                             for address, _, name in (line.split() for line in lines)}
    return _symbols[program][symbol]
