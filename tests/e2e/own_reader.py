"""Our own reader of traces beside libbabeltrace2: the same trace, once in words that only libbabeltrace2 understands."""
import os
import re
import shutil
import subprocess

FOREIGN = "typealias integer { size = 8; align = 8; signed = false; } := not_ours;\n"


def foreign_copy(trace, path):
    """Copies a trace, so that it means the same and isn't in dyntrace's own words."""
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(trace, path)
    for top, _, names in os.walk(path):
        if "metadata" in names:
            with open(os.path.join(top, "metadata"), "a") as metadata:
                metadata.write(FOREIGN)
    return path


def view(dyntrace_path, trace, *words):
    result = subprocess.run([dyntrace_path, "view", *words, trace], stdin=subprocess.DEVNULL, capture_output=True)
    errors = re.sub(rb"0x[0-9a-f]+", b"ADDRESS", result.stderr.replace(os.fsencode(trace), b"TRACE"))
    return result.returncode, result.stdout, errors


def is_read_by_ourselves(dyntrace_path, trace):
    """One process reads a trace of our own; a second one, with libbabeltrace2's plugins, reads any other."""
    log = subprocess.run(["strace", "-f", "-q", "-e", "trace=openat", "-e", "status=successful", dyntrace_path, "view", trace],
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True).stderr
    return "babeltrace2/plugins" not in log


def compare(dyntrace_path, trace, copy, *choices):
    """The same bytes from both readers, with each of these words. Gives the status and text without words."""
    foreign_copy(trace, copy)
    plain = None
    for words in ([], ["--json"], *choices):
        own, other = view(dyntrace_path, trace, *words), view(dyntrace_path, copy, *words)
        assert own == other, f"view {words} {trace} differs"
        plain = plain or own
    shutil.rmtree(copy)
    return plain
