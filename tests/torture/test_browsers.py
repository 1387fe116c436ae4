"""Chromium with its sandbox: the browser, a renderer and other processes whose filters of system calls send SIGSYS for much
that dyntrace does, and renderers that take up their filter while they are traced."""
import json
import os
import re
import shutil
import signal
import subprocess
import urllib.request

import browser
import pytest

from harness import until

pytestmark = pytest.mark.skipif(not shutil.which("chromium"), reason="no chromium")

PAGE = """<script>
let n = 0
setInterval(() => {
    document.title = `tick ${++n}`
    document.body.textContent = "x".repeat(n % 5000)
}, 10)
</script><body></body>"""
USER = 1000
NOT_HERE = ("--no-sandbox", "--remote-debugging-pipe")


class Chromium:
    def __init__(self, processes, scratch):
        os.chmod(scratch, 0o755)
        self.home = os.path.join(scratch, "home")
        self.page = os.path.join(scratch, "page.html")
        os.mkdir(self.home)
        os.chown(self.home, USER, USER)
        with open(self.page, "w") as file:
            file.write(PAGE)
        self.process = processes.start(
            ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "env", f"HOME={self.home}", browser.CHROMIUM,
             *(flag for flag in browser.FLAGS if flag not in NOT_HERE), f"--user-data-dir={self.home}/profile", "--remote-debugging-port=0", f"file://{self.page}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: os.path.exists(f"{self.home}/profile/DevToolsActivePort"), "Chromium", 60)
        until(self.ticks, "the page", 60)

    def ask(self, path, method="GET"):
        with open(f"{self.home}/profile/DevToolsActivePort") as file:
            port = file.readline().strip()
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def ticks(self):
        """By page, how often its timer ran."""
        pages = {page["id"]: re.match(r"tick (\d+)", page["title"]) for page in self.ask("/json") if page["type"] == "page"}
        return {page: int(match[1]) for page, match in pages.items() if match}

    def goes_on(self):
        before = self.ticks()
        until(lambda: all(self.ticks().get(page, 0) > ticks + 1 for page, ticks in before.items()), "all pages to go on", 60)

    def kinds(self):
        """Pids of processes by --type; of renderers and utilities only those with a filter."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline") as file:
                    words = file.read().replace("\0", " ").split() or [""]  # (children write their own)
                with open(f"/proc/{pid}/status") as file:
                    filtered = "Seccomp:\t2" in file.read()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if os.path.basename(words[0]) != "chromium":
                continue
            kind = next((word[7:] for word in words if word.startswith("--type=")), "browser")
            if os.stat(f"/proc/{pid}").st_uid == USER and (filtered or kind not in ("renderer", "utility")):
                found.setdefault(kind, []).append(int(pid))
        return found


@pytest.fixture
def chromium(processes, scratch):
    return Chromium(processes, scratch)


@pytest.mark.limit(600)
def test_each_kind_of_process(dyntrace, chromium):
    """All functions of libc with exits, in each kind of process, twice; the second tracer is killed."""
    kinds = chromium.kinds()
    assert {"browser", "renderer", "utility", "gpu-process"} <= set(kinds), kinds
    for pids in kinds.values():
        if pids == kinds.get("zygote"):
            continue
        for pid in pids[:2]:
            for ending in (signal.SIGINT, signal.SIGKILL):
                tracing = dyntrace.start_trace(pid, "--function", "*@libc.so.6", "-e", "--mode", "overwrite", "--buffer-size", "16M")
                chromium.goes_on()
                tracing.process.send_signal(ending)
                tracing.process.communicate(timeout=120)
                assert tracing.process.returncode == (0 if ending == signal.SIGINT else -ending)
                chromium.goes_on()
            dyntrace("detach", str(pid))
            chromium.goes_on()
    assert {pid for pids in kinds.values() for pid in pids} <= {pid for pids in chromium.kinds().values() for pid in pids}


@pytest.mark.limit(600)
def test_renderers_that_begin_while_traced(dyntrace, chromium):
    """The zygote is traced: its children take up their filters as traced processes."""
    before = chromium.kinds()
    with open(f"/proc/{before['renderer'][0]}/stat") as file:
        zygote = int(file.read().rpartition(")")[2].split()[1])
    tracing = dyntrace.start_trace(zygote, *(word for name in ("malloc", "write", "prctl", "syscall") for word in ("--function", f"libc:{name}")))
    for _ in range(3):
        chromium.ask(f"/json/new?file://{chromium.page}", "PUT")
    until(lambda: len(chromium.ticks()) >= 4, "new pages", 60)
    chromium.goes_on()
    tracing.process.send_signal(signal.SIGINT)
    tracing.process.communicate(timeout=120)
    chromium.goes_on()
    assert len(chromium.kinds()["renderer"]) >= len(before["renderer"]) + 1
