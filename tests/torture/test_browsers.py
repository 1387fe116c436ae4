"""Chromium and Firefox with their sandboxes: the browser, renderers, content processes and others whose filters of system calls send
SIGSYS for much that dyntrace does, and renderers that take up their filter while they are traced."""
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import urllib.request

import browser
import pytest

from harness import until

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


TICKING = """<body></body><script>
let n = 0
async function tick() {
    document.body.textContent = "x".repeat(++n % 5000)
    await fetch(`/tick?${n}`)
    setTimeout(tick, 10)
}
tick()
</script>"""
PREFERENCES = {"browser.shell.checkDefaultBrowser": False, "datareporting.policy.dataSubmissionEnabled": False, "app.normandy.enabled": False,
               "toolkit.telemetry.server": "", "network.proxy.type": 0, "browser.aboutwelcome.enabled": False, "network.captive-portal-service.enabled": False,
               "network.connectivity-service.enabled": False, "extensions.update.enabled": False, "browser.sessionstore.resume_from_crash": False}


class Firefox:
    """Its page asks a server of ours, again and again: content process, browser and network of it are at work."""
    def __init__(self, processes, scratch):
        os.chmod(scratch, 0o755)
        self.home = os.path.join(scratch, "home")
        os.makedirs(f"{self.home}/profile")
        with open(f"{self.home}/profile/user.js", "w") as file:
            file.writelines(f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in PREFERENCES.items())
        for path, _, files in os.walk(self.home):
            for name in (path, *(os.path.join(path, name) for name in files)):
                os.chown(name, USER, USER)
        self.count = 0
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.process = processes.start(
            ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "env", f"HOME={self.home}", "MOZ_CRASHREPORTER_DISABLE=1", "firefox-esr",
             "--headless", "--no-remote", "--profile", f"{self.home}/profile", f"http://127.0.0.1:{self.server.server_port}/"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: self.count > 1, "the page", 120)

    def handler(self):
        firefox = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                firefox.count += self.path.startswith("/tick")
                body = TICKING.encode() if self.path == "/" else b""
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words):
                pass
        return Handler

    def goes_on(self):
        before = self.count
        until(lambda: self.count > before + 2, "the page to go on", 60)

    def kinds(self):
        """Pids of its processes by name; of content processes and helpers only those with a filter."""
        found = {"browser": [self.process.pid]}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline") as file:
                    words = file.read().replace("\0", " ").split()  # (children write their own)
                with open(f"/proc/{pid}/status") as file:
                    status = dict(line.split(":\t", 1) for line in file.read().splitlines())
            except (FileNotFoundError, ProcessLookupError):
                continue
            if "-contentproc" in words and status["Uid"].split()[0] == str(USER) and (status["Seccomp"] == "2" or words[-1] == "forkserver"):
                found.setdefault(status["Name"], []).append(int(pid))
        return found


@pytest.fixture
def chromium(processes, scratch):
    if not shutil.which("chromium"):
        pytest.skip("no chromium")
    return Chromium(processes, scratch)


@pytest.fixture
def firefox(processes, scratch):
    if not shutil.which("firefox-esr"):
        pytest.skip("no firefox-esr")
    found = Firefox(processes, scratch)
    yield found
    found.server.shutdown()
    found.server.server_close()


def visit_all(dyntrace, web, left_out=()):
    """All functions of libc with exits, in each kind of process, twice; the second tracer is killed."""
    kinds = web.kinds()
    for pid in [pid for kind, pids in kinds.items() if kind not in left_out for pid in pids[:2]]:
        for ending in (signal.SIGINT, signal.SIGKILL):
            tracing = dyntrace.start_trace(pid, "--function", "*@libc.so.6", "-e", "--mode", "overwrite", "--buffer-size", "16M")
            web.goes_on()
            tracing.process.send_signal(ending)
            tracing.process.communicate(timeout=120)
            assert tracing.process.returncode == (0 if ending == signal.SIGINT else -ending)
            web.goes_on()
        dyntrace("detach", str(pid))
        web.goes_on()
    assert {pid for pids in kinds.values() for pid in pids} <= {pid for pids in web.kinds().values() for pid in pids}


@pytest.mark.limit(600)
def test_each_kind_of_process(dyntrace, chromium):
    assert {"browser", "renderer", "utility", "gpu-process"} <= set(chromium.kinds()), chromium.kinds()
    visit_all(dyntrace, chromium, ["zygote"])


@pytest.mark.limit(600)
def test_each_kind_of_process_of_firefox(dyntrace, firefox):
    assert {"browser", "Isolated Web Co"} <= set(firefox.kinds()), firefox.kinds()
    visit_all(dyntrace, firefox)


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
