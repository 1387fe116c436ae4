"""Static tracepoints of LTTng-UST and markers of libraries: list-markers, list-tracepoints, watch; judged by lttng list."""
import json
import os
import re
import subprocess

import pytest

from harness import until
from test_lttng import lttng, needs_lttng  # noqa: F401 (a fixture)
from test_lttng_sessions import Both, both  # noqa: F401 (a fixture)

pytestmark = needs_lttng

# Two events of one class, one without arguments, one with a log level.
PROVIDER = r"""
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER demo
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./demo.h"
#if !defined(DEMO_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define DEMO_H
#include <lttng/tracepoint.h>
LTTNG_UST_TRACEPOINT_EVENT(demo, order, LTTNG_UST_TP_ARGS(int, number, const char *, name),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, number, number) lttng_ust_field_string(name, name)))
LTTNG_UST_TRACEPOINT_LOGLEVEL(demo, order, LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING)
LTTNG_UST_TRACEPOINT_EVENT(demo, bare, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())
LTTNG_UST_TRACEPOINT_EVENT_CLASS(demo, sized, LTTNG_UST_TP_ARGS(long, size),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(long, size, size)))
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(demo, sized, demo, grown, LTTNG_UST_TP_ARGS(long, size))
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(demo, sized, demo, shrunk, LTTNG_UST_TP_ARGS(long, size))
#endif
#include <lttng/tracepoint-event.h>
"""
CODE = r"""
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "demo.h"
#include "dyntrace/marker.h"
#include <stdio.h>
void step(int n) { DYNTRACE_MARKER(shop, step, n); DYNTRACE_MARKER(shop, done); lttng_ust_tracepoint(demo, order, n, "x"); }
"""
MAIN = r"""
int main(void) { char line[9]; setvbuf(stdout, NULL, _IONBF, 0); puts("ready"); while (fgets(line, 9, stdin)) { step(1); puts("done"); } }
"""
HOST = r"""
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	char line[9];
	setvbuf(stdout, NULL, _IONBF, 0);
	puts("ready");
	while (fgets(line, 9, stdin))
		puts(dlopen(argv[1], RTLD_NOW) ? "done" : dlerror());
}
"""
ARGUMENTS = {"demo:bare": "", "demo:grown": "long, size", "demo:order": "int, number, const char *, name",
             "demo:shrunk": "long, size"}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """{name: path}: the same provider in programs and in a library; a program that loads a library."""
    folder = tmp_path_factory.mktemp("static")
    include = os.path.join(os.path.dirname(__file__), "..", "..", "include")
    for name, text in {"demo.h": PROVIDER, "demo.c": CODE + MAIN, "library.c": CODE, "host.c": HOST}.items():
        (folder / name).write_text(text)
    for name, source, *words in [("pie", "demo.c"), ("fixed", "demo.c", "-no-pie", "-fno-pie", "-s"),
                                 ("demo.so", "library.c", "-shared", "-fPIC", "-s"), ("host", "host.c")]:
        subprocess.run(["gcc", "-O2", "-I", folder, "-I", include, *words, "-o", folder / name, folder / source,
                        *([] if name == "host" else ["-llttng-ust"])], check=True)
    return {name: str(folder / name) for name in ("pie", "fixed", "demo.so", "host")}


class Running:
    def __init__(self, lttng, processes, *words):
        self.process = processes.start(lttng.inside(*words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=lttng.env)
        assert self.process.stdout.readline() == "ready\n"
        self.pid = self.process.pid

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"


def by_lttng(lttng, pid):
    """{name: log level} of a process."""
    text = lttng("list", "--userspace").split(f"PID: {pid} ")[1].split("PID:")[0]
    return {name: int(level) for name, level in re.findall(r"^ +(\S+:\S+) \(loglevel: \w+ \((\d+)\)\)", text, re.M)}


def of_lttng(listed):
    return {f"{one['provider']}:{one['name']}": one for one in listed if one["kind"] == "lttng"}


@pytest.mark.parametrize("name", ["pie", "fixed"])
def test_as_lttng_lists_them(lttng, processes, dyntrace, built, name):
    """All providers of the process, with their levels, LTTng's own among them; with no symbol left in the file."""
    target = Running(lttng, processes, built[name])
    expected = by_lttng(lttng, target.pid)
    assert set(ARGUMENTS) < set(expected) and expected["demo:order"] == 4 and len(expected) > 10
    found = of_lttng(json.loads(dyntrace("list-markers", target.pid, "--json").stdout))
    assert {one: found[one]["loglevel"] for one in found} == expected
    assert {one: found[one]["arguments"] for one in ARGUMENTS} == ARGUMENTS


def test_of_a_file(dyntrace, built):
    lines = dyntrace("list-markers", built["demo.so"], "demo:*").stdout.splitlines()
    assert [line.split(maxsplit=4)[1:] for line in lines] == \
        [["demo.so", "lttng", name] + ([arguments] if arguments else []) for name, arguments in ARGUMENTS.items()]
    listed = json.loads(dyntrace("list-markers", built["demo.so"], "--json").stdout)
    assert [one["name"] for one in listed if one["kind"] == "sdt"] == ["done", "step"]
    assert of_lttng(json.loads(dyntrace("list-markers", built["host"], "--json").stdout)) == {}
    said = dyntrace.fails("trace", "--marker", "demo:order", "--", built["pie"], status=125)
    assert "is a static tracepoint of LTTng, not a marker (lttng enable-event --userspace 'demo:order')" in said


def test_with_a_library(both, lttng, processes, built):
    """watch tells markers and static tracepoints that come with a library; list-tracepoints lists those of LTTng."""
    daemon = both.daemon
    target = Running(lttng, processes, built["host"], built["demo.so"])
    watch = daemon.watch(str(target.pid))
    daemon.attach(target.pid)
    daemon.add(f"{target.pid}:puts@libc.so.6", "-n", "puts", "count")
    assert [one["name"] for one in daemon.json("list-tracepoints", target.pid)] == ["puts"]
    target.go_on()
    wanted = {("marker-loaded", f"shop:{name} in {built['demo.so']}") for name in ("step", "done")} | \
        {("static-tracepoint-loaded", f"{name} in {built['demo.so']}") for name in ARGUMENTS}
    seen = set()
    while not wanted <= seen:  # the watch's end is an error
        event = watch.next()
        seen.add((event["event"], event["detail"]))
    assert ("module-loaded", built["demo.so"]) in seen
    assert {one for one in seen if "demo.so" in (one[1] or "")} == wanted | {("module-loaded", built["demo.so"])}

    expected = by_lttng(lttng, target.pid)
    assert set(ARGUMENTS) < set(expected)
    rows = daemon.json("list-tracepoints", target.pid)
    assert [(one["name"], one["tracer"], one["state"], one["fields"]) for one in rows if one["kind"] == "static"] == \
        [(name, "lttng", "static", [arguments] if arguments else []) for name, arguments in ARGUMENTS.items()]
    assert [one["name"] for one in rows if one["kind"] != "static"] == ["puts"]
    lines = daemon("list-tracepoints", target.pid).stdout.splitlines()
    assert [line.split() for line in lines[-4:]] == [[name, "demo.so", "lttng", "static", "-"] for name in ARGUMENTS]
    assert daemon.fails("rm", f"{target.pid}:demo:order")
    daemon("detach", target.pid)
