"""The script of the machine that test_documents_slow.py boots: runs the documents' commands about services. Writes the answers to
/result/facts, as JSON."""
import json
import os
import subprocess
import sys
import tempfile
import traceback

sys.path.insert(0, "/source/tests/e2e")
import documents  # noqa: E402


def main(facts):
    subprocess.run(["systemctl", "start", "redis-server"], check=True)
    load = subprocess.Popen("while :; do redis-cli get a; redis-cli incr b; done", shell=True, stdout=subprocess.DEVNULL, start_new_session=True)
    os.environ["PATH"] = "/build:" + os.environ["PATH"]
    os.chdir("/tmp")
    with tempfile.TemporaryDirectory() as folder:
        shell = documents.Shell(folder)
        facts["results"] = [[shell.run(step.command) for step in block.steps] for block in documents.blocks("/source/docs/recipes.md")
                            if block.slow and block.lane == "systemd"]
        shell.close()
    os.killpg(load.pid, 9)


found = {}
try:
    main(found)
except BaseException:  # the host shows it
    found["failed"] = traceback.format_exc()
with open("/result/facts", "w", encoding="utf-8") as file:
    json.dump(found, file)
