"""dyntrace's tracer lttng: the events of LTTng's static tracepoint, from a probe."""

import os
import subprocess

from workload import Workload, interrupt

from .lttng import Args as Static


class Dynamic(Static):
    name = "dyntrace-lttng"
    title = "dyntrace: LTTng event, six fields and address"
    tracer = None

    def available(self):
        if not os.path.exists(os.path.join(self.bench.build, "libdyntrace-lttng.so")):
            return "libdyntrace-lttng.so isn't built"
        return super().available()

    def start(self):
        self.start_daemon()
        lttng = ("lttng", "--no-sessiond")
        self.command(*lttng, "create", "bench", f"--output={self.trace}")
        self.command(*lttng, "enable-channel", "--userspace", "--session=bench",
                     "--subbuf-size=16M", "--num-subbuf=4", "channel")
        self.command(*lttng, "enable-event", "--userspace", "--session=bench", "--channel=channel", "dyntrace:*")
        self.command(*lttng, "start", "bench")
        self.workload = Workload(self.program("workload"), self.prefix(), self.env)
        self.workload.go()
        self.tracer = subprocess.Popen(
            [os.path.join(self.bench.build, "dyntrace"), "trace", "-p", str(self.workload.pid), "--tracer", "lttng",
             "-n", self.kind, "--function", self.kind], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.workload.wait_patched(self.kind, self.tracer)

    def stop(self):
        if self.tracer:
            interrupt(self.tracer)
        super().stop()


CASES = [Dynamic]
