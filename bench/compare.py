"""All cases side by side: started together, measured in turn, the minimum of all rounds taken."""

import case
import peers

BASES = [case.Rdtsc, case.PlainFoo, case.PlainFoo6, case.PlainText, case.Floor, case.TimedFloor]
CASES = [*BASES, *peers.CASES]

# The cost of one call without a probe, by loop.
BASELINE = {"foo": "plain-foo", "foo6": "plain-foo6", "foo_text": "plain-text", "record": "plain-foo", "timed": "plain-foo6"}


class Comparison:
    """The measurements, ns[name][threads], and the reasons for missing cases."""

    def __init__(self, bench, names, rounds, threads):
        self.cases = [c(bench) for c in CASES if not names or c in BASES or c.name in names]
        self.rounds = rounds
        self.threads = threads
        self.ns = {}
        self.hits = {}
        self.left_out = {}

    def run(self, progress):
        running = []
        try:
            for c in self.cases:
                progress(f"starting {c.name}")
                if self._guarded(c, self._start):
                    running.append(c)
            for number in range(self.rounds):
                progress(f"round {number + 1} of {self.rounds}")
                running = [c for c in running if self._guarded(c, self._measure)]
        finally:
            self._stop_all(progress)
        for c in running:
            progress(f"counting {c.name}")
            self._guarded(c, self._verify)

    def _stop_all(self, progress):
        """Whatever happens, Ctrl-C included, each case gets its chance to leave nothing behind."""
        interrupted = None
        for c in self.cases:
            progress(f"stopping {c.name}")
            try:
                self._guarded(c, lambda c: c.stop())
            except (KeyboardInterrupt, SystemExit) as error:
                interrupted = error
        if interrupted:
            raise interrupted

    def _guarded(self, c, step):
        """Does a step of one case; a case that fails is left out, with the reason, and the others go on."""
        try:
            reason = step(c)
        except (OSError, RuntimeError, ValueError) as error:
            reason = str(error) or type(error).__name__
        except Exception as error:  # a peer's tool that failed: CalledProcessError and the like
            reason = f"{type(error).__name__}: {error}"
        if reason:
            self.left_out.setdefault(c.name, reason)
            self.ns.pop(c.name, None)
        return not reason

    def _start(self, c):
        reason = c.available()
        if not reason:
            c.start()
            self.ns[c.name] = {}
            self.hits[c.name] = 0
        return reason

    def _measure(self, c):
        for threads in self.threads:
            ns = c.workload.measure(c.kind, c.calls, threads)
            self.hits[c.name] += c.calls * threads
            self.ns[c.name][threads] = min(ns, self.ns[c.name].get(threads, ns))

    def _verify(self, c):
        return c.verify(self.hits[c.name])

    def cost(self, name, threads):
        """Nanoseconds that a hit adds to the call; None: not measured."""
        if threads not in self.ns.get(name, {}):
            return None
        kind = next(c.kind for c in self.cases if c.name == name)
        base = BASELINE.get(kind)
        if base is None or name == base:
            return self.ns[name][threads]
        return self.ns[name][threads] - self.ns[base][threads]

    def ratio(self, name, threads):
        cost = self.cost(name, threads)
        return None if cost is None else cost / self.cost("rdtsc", threads)
