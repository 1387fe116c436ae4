"""Languages with their own calling conventions: recorded values are right, or marked as unknown."""
import os
import shutil
import subprocess

import pytest

from test_values import PROGRAMS


@pytest.mark.skipif(not shutil.which("go"), reason="no Go compiler")
def test_go(dyntrace, scratch):
    path = os.path.join(scratch, "program")
    subprocess.run(["go", "build", "-o", path, PROGRAMS + "/go_types.go"], check=True, env={"HOME": str(scratch), "PATH": "/usr/bin:/bin"})
    _, trace = dyntrace.trace("--function", "main.take", "--", path)
    assert trace.events[0].fields == {"n": 7, "small": -3, "s": "hello go", "f": 2.5, "b": "some bytes", "last": 1}
    for expression, hits in (('s == "hello*"', 1), ("n == 8", 0), ("s.len == 8 && b.len == 10 && small < 0", 1)):
        assert len(dyntrace.trace("--function", "main.take", "--filter", expression, "--", path)[1].events) == hits


@pytest.mark.skipif(not shutil.which("gfortran"), reason="no Fortran compiler")
@pytest.mark.parametrize("flags, n, x", [("-O1", 42, 2.5), ("-O0", 0, 0)])
def test_fortran(dyntrace, scratch, flags, n, x):
    """Arguments are passed by address, which only the locations of optimised code show; otherwise they are <optimised out>,
    an enumeration with the one value 0."""
    path = os.path.join(scratch, "program")
    subprocess.run(["gfortran", "-g", flags, "-fno-inline", "-J", scratch, "-o", path, PROGRAMS + "/fortran_types.f90"], check=True)
    _, trace = dyntrace.trace("-e", "--function", "__types_MOD_*", "--", path)
    entry, leave = trace.named("__types_MOD_take_entry")[0], trace.named("__types_MOD_twice_exit")[0]
    assert (entry.fields["n"], entry.fields["x"], leave.fields["ret"]) == (n, x, 42)
