"""`trace --profile FILE`: options in a file."""
import os

import pytest
from harness import Trace


@pytest.fixture
def profile(scratch):
    def write(text):
        path = os.path.join(scratch, "a.profile")
        with open(path, "wb") as file:
            file.write(text.encode() if isinstance(text, str) else text)
        return path
    return write


def test_a_file_says_what_the_command_line_would(dyntrace, program_path, profile):
    """Flags, values with blanks and equal signs; what stands behind it overrides it."""
    path, output = profile("# two of them\n\n\tfunction=foo\n  exit \nfilter = number == 3 || number == 4\nbuffer-size = 1M\n"
                           "output = /nowhere/at/all"), dyntrace.new_output()
    dyntrace("trace", "--profile", path, "-o", output, "--", program_path("spin"), "--calls", 10)
    trace = Trace(output)
    assert [event.fields["number"] for event in trace.named("foo_entry")] == [3, 4]
    assert len(trace.named("foo_exit")) == 2


def test_lists_grow_behind_it(dyntrace, program_path, profile):
    output = dyntrace.new_output()
    dyntrace("trace", "--profile", profile("probe = foo\n"), "--probe", "foo_many", "-o", output, "--", program_path("spin"), "--calls", 3)
    assert Trace(output).names() == {"foo": 3, "foo_many": 1}


@pytest.mark.parametrize("text, why", [
    ("exit\n\nmin-durtion = 1ms\n", "3: unknown option '--min-durtion'"),
    ("exit = 1\n", "1: "),
    ("function\n", "1: "),
    ("# fine\nbuffer-size = many\n", "2: "),
    ("-e\n", "1: '-e': give the long name without dashes"),
    ("function foo\n", "1: 'function foo' is not NAME or NAME = VALUE"),
    ("= 3\n", "1: '' is not NAME or NAME = VALUE"),
    ("profile = other\n", "1: 'profile' is for the command line"),
    ("help\n", "1: 'help' is for the command line"),
    (b"exit\nfunc\0tion = foo\n", "2: a byte 0 in the line"),
])
def test_errors_name_the_line(dyntrace, profile, text, why):
    path = profile(text)
    said = dyntrace.fails("trace", "--profile", path, "--", "true", status=2)
    assert said.startswith(f"trace: option '--profile': {path}:{why}"), said


def test_no_file(dyntrace, scratch):
    assert "cannot read /nowhere/at/all: No such file" in dyntrace.fails("trace", "--profile", "/nowhere/at/all", "--", "true", status=125)
    assert f"{scratch} is a directory (give a file)" in dyntrace.fails("trace", "--profile", scratch, "--", "true", status=2)
