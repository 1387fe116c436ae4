"""
The page of `report --html`: its size for 10 M events, and in Chromium, where that is installed, CPU time until a page of 1 M calls
is ready (of all threads of its process, so no less than the clock's on a machine without other work), and how long a picture of its
timeline takes.
"""

import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOOPS = 55_556  # of tests/programs/calls, on two threads: 1 M calls
GOALS = {"bytes": 12 << 20, "ready": 1000, "redraw": 16}  # milliseconds; redraw is a median
PICTURES = """(() => { const times = []; for (let i = 0; i < 101; i++) {
    const width = page.meta.span * 0.8 ** (i % 40); page.view.from = (page.meta.span - width) * (i * 0.37 % 1); page.view.to = page.view.from + width;
    page.drawTimeline(); times.push(page.view.last) } return times.sort((a, b) => a - b)[50] })()"""


def look_at(page):
    sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
    from browser import CHROMIUM, Browser
    if not os.path.exists(CHROMIUM):
        print("chromium: not installed")
        return {}
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(folder)
        try:
            browser.open(page, ready="!!globalThis.page")
            browser.call("Performance.enable")
            metrics = {one["name"]: one["value"] for one in browser.call("Performance.getMetrics")["metrics"]}
            return {"ready": metrics["ProcessTime"] * 1000, "ready, by the clock": browser.run("page.loaded"), "redraw": browser.run(PICTURES)}
        finally:
            browser.close()


def run(bench, record, size, loops=LOOPS):
    """`size`: bytes of the page of 10 M events. Prints the figures; gives them, and whether the goals were met."""
    trace, page = bench.path("paged"), bench.path("paged.html")
    record(bench, trace, loops)
    subprocess.run([os.path.join(bench.build, "dyntrace"), "report", trace, "--html", page], check=True)
    figures = {"bytes": size, **look_at(page)}
    met = {name: value <= GOALS.get(name, float("inf")) for name, value in figures.items()}
    for name, value in figures.items():
        shown = f"{value / 2**20:8.1f} MiB" if name == "bytes" else f"{value:8.1f} ms"
        print(f"{'page, ' + name:28}{shown}{'' if met[name] else '  missed'}")
    shutil.rmtree(trace)
    os.unlink(page)
    return figures, all(met.values())
