"""Rights end with execve (H33), wherever the daemon is just then: stopped at points of each scene, while the member's process
executes a setuid program. tests/torture/test_exec_points.py stops at all of them."""
import os
import signal
import subprocess

import pytest
from exec_points import SCENES, WAYS, Turncoat, count_points, furnish, open_stage
from harness import until

POINTS = 3  # per scene, here


@pytest.mark.limit(120)
@pytest.mark.parametrize("workers, scene", [("member", "load"), ("member", "replay"), *(("root", scene) for scene in SCENES)])
def test_nothing_follows_a_process_into_a_setuid_program(build, processes, scratch, program_path, workers, scene):
    with open_stage(workers, build, processes, scratch, program_path) as stage:
        points = count_points(stage, scene)
        assert points > POINTS
        for number in range(1, POINTS + 1):
            SCENES[scene](stage, points * number // (POINTS + 1), WAYS[number % len(WAYS)])
            print(stage.end())


# ---- without a daemon -----------------------------------------------------------------------------------------

@pytest.mark.limit(120)
def test_nothing_of_a_trace_of_root_s_follows_a_process_into_a_setuid_program(build, processes, scratch, program_path):
    furnish(scratch, build, program_path)

    def trace(point, way):
        one = Turncoat(processes, scratch, way)
        words = [f"{scratch}/dyntrace", "trace", "-p", str(one.pid), "--function", "foo", "-e", "-o", f"{scratch}/trace-{one.pid}"]
        process = processes.start(["sh", "-c", 'kill -STOP $$; exec "$@"', "sh", *words], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        until(lambda: open(f"/proc/{process.pid}/stat").read().split()[2] == "T", "its first stop")
        stepper = processes.start([program_path("stepper"), str(point), str(one.pid), str(one.command), str(process.pid)],
                                  stdout=subprocess.PIPE, text=True, pass_fds=[one.command])
        assert stepper.stdout.readline().startswith("following ")
        placed = f"{scratch}/trace-{one.pid}/metadata"
        until(lambda: os.path.exists(placed) or stepper.poll() is not None or process.poll() is not None, "the trace")
        if not point:
            os.write(one.command, b"x")
            until(one.has_turned, "the setuid program to run")
        process.send_signal(signal.SIGINT)
        stepper_says = stepper.communicate(timeout=30)[0]
        if "point " not in stepper_says and point:
            os.write(one.command, b"x")
        _, said = process.communicate(timeout=30)
        until(one.has_turned, f"the setuid program to run ({stepper_says})")
        report = f"{stepper_says} {process.returncode} {said}"
        assert one.foreign_parts() == [], report
        one.process.stdin.write("x\n")
        one.process.stdin.flush()
        assert one.process.stdout.read() == "ready\ninnocent 0\n" and one.process.wait(20) == 0, report
        one.close()
        return report

    points = int(trace(0, "leader").split("points ")[1].split()[0])
    assert points > 10
    for number in range(1, 11):
        print(trace(points * number // 11, WAYS[number % len(WAYS)]))
