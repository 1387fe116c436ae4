"""The script of the machine that test_hardening.py boots: each hardening option of systemd's by itself."""
import json
import subprocess
import sys
import traceback

sys.path.insert(0, "/source/tests/e2e")
from hardening import OPTIONS, TOGETHER, trace_services  # noqa: E402
from harness import Dyntrace, Processes, be_patient  # noqa: E402


def run(*words):
    result = subprocess.run(list(map(str, words)), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=50)
    return result.stdout if result.returncode == 0 else f"exit status {result.returncode}: {result.stdout}{result.stderr}"


def main():
    be_patient()
    facts, processes = {}, Processes()
    try:
        facts["hardened"] = trace_services(run, Dyntrace("/usr/local/bin/", processes, "/tmp"), [*OPTIONS, TOGETHER])
    except Exception:  # the test shows any error
        facts["failed"] = traceback.format_exc()
    processes.close()
    with open("/result/facts", "w") as file:
        json.dump(facts, file)


main()
