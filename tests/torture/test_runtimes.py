"""Programs with their own compiler and garbage collector: all functions that can be probed, while they collect."""
import os
import shutil
import subprocess

import pytest
from harness import until

JAVASCRIPT = """
let keep = [], n = 0;
for (const end = Date.now() + SECONDS * 1000; Date.now() < end; n++) {
  const o = { a: [1, 2, 3], s: 'x' + n };
  keep.push(o);
  if (keep.length > 50000) keep = [];
  try { if (n % 1000 == 0) throw new Error('e'); } catch (e) { e.stack.length; }
  JSON.stringify(o);
  [3, 1, 2].sort((a, b) => a - b);
}
console.log(n > 0);
"""

JAVA = """
import java.util.*;
public class Busy {
  public static void main(String[] words) throws Exception {
    List<byte[]> keep = new ArrayList<>();
    long n = 0, end = System.currentTimeMillis() + SECONDS * 1000;
    for (; System.currentTimeMillis() < end; n++) {
      keep.add(new byte[1000]);
      if (keep.size() > 20000) keep.clear();
      if (n % 100000 == 0) try { throw new RuntimeException("x"); } catch (Exception e) { }
      if (n % 500 == 0) Thread.sleep(1);
    }
    System.out.println("done");
  }
}
"""


def write(scratch, name, source, seconds):
    path = os.path.join(scratch, name)
    with open(path, "w") as file:
        file.write(source.replace("SECONDS", str(seconds)))
    return path


@pytest.mark.limit(300)
@pytest.mark.skipif(not shutil.which("node"), reason="no node")
@pytest.mark.parametrize("what", [["--function", "_ZN2v88internal*", "--function", "Builtins_*"],
                                  ["-e", "--function", "_ZN2v88internal[0-9][0-9]*"]], ids=["entries", "exits"])
def test_javascript(dyntrace, scratch, what):
    script = write(scratch, "busy.js", JAVASCRIPT, 10)
    result, _ = dyntrace.trace("--mode", "overwrite", "--buffer-size", "16M", *what, "--", "node", script, seconds=200)
    assert result.stdout == "true\n"


@pytest.mark.limit(300)
@pytest.mark.skipif(not shutil.which("java"), reason="no java")
def test_java(dyntrace, processes, scratch):
    """Attached to several times."""
    source = write(scratch, "Busy.java", JAVA, 40)
    target = processes.start(["java", "-Xmx200m", source], stdout=subprocess.PIPE, text=True)
    until(lambda: "libjvm.so" in open(f"/proc/{target.pid}/maps").read(), "libjvm.so")
    for glob in ("JVM_*@libjvm.so", "_ZN2[0-9]*@libjvm.so", "*@libc.so.6"):
        tracing = dyntrace.start_trace(target.pid, "-e", "--function", glob, "--mode", "overwrite",
                                       "--buffer-size", "16M").wait_told()
        tracing.stop()
    assert target.wait() == 0
    assert target.stdout.read() == "done\n"


@pytest.mark.limit(300)
@pytest.mark.skipif(not shutil.which("java"), reason="no java")
def test_java_from_its_library_on(dyntrace, scratch):
    """Placing takes seconds, during which the thread that loads the library waits."""
    source = write(scratch, "Busy.java", JAVA, 1)
    result = dyntrace("trace", "--wait", "--function", "*@libjvm.so", "--tracer", "count", "--", "java", "-Xmx200m", source, seconds=250)
    assert result.stdout == "done\n"
    assert "went on" not in result.stderr and "not placed: *" not in result.stderr
    assert any(line.startswith("JNI_CreateJavaVM ") or line.startswith("(and ") for line in result.stderr.splitlines())
