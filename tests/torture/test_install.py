"""`make install` from nothing: the place of each file, for two prefixes, and in the installed files' own words."""
import os
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FILES = {"bin/dyntrace", "bin/dyntraced", "include/dyntrace/dyntrace.h", "lib/dyntrace/libdyntrace-agent.so",
         "lib/dyntrace/libdyntrace-lttng.so", "lib/libdyntrace.so", "lib/libdyntrace.so.0", "lib/libdyntrace.so.0.1.0",
         "lib/pkgconfig/dyntrace.pc", "lib/pkgconfig/dyntrace-agent.pc", "lib/sysusers.d/dyntrace.conf",
         "lib/systemd/user/dyntraced.service", "lib/systemd/user/dyntraced.socket",
         "lib/systemd/system/dyntraced.service", "lib/systemd/system/dyntraced.socket",
         "lib/systemd/system/dyntraced-asker@.service", "lib/systemd/system/dyntraced-asker.socket",
         "share/bash-completion/completions/dyntrace", "share/zsh/site-functions/_dyntrace",
         *(f"share/doc/dyntrace/{name}.md" for name in ("README", "limits", "probes", "recipes", "rights", "tutorial")),
         "share/doc/dyntrace/examples/hits.c", "share/doc/dyntrace/examples/recorder.c",
         "share/dyntrace/dyntrace-gdb.py", "share/man/man3/libdyntrace.3", "share/man/man8/dyntraced.8"}


def make(word, scratch, prefix, root):
    done = subprocess.run(["make", "-C", ROOT, word, f"BUILD={scratch}/build", f"PREFIX={prefix}", f"DESTDIR={root}"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def files_below(root):
    return [os.path.join(where, name) for where, _, names in os.walk(root) for name in names]


def installed(scratch, prefix):
    """The files below the prefix, pages of commands apart; none is anywhere else."""
    root = os.path.join(scratch, "root" + prefix.replace("/", "-"))
    make("install", scratch, prefix, root)
    folder = root + prefix
    found = {os.path.relpath(name, folder) for name in files_below(root)}
    return folder, {name for name in found if not name.startswith("share/man/man1/dyntrace")}


def text(path):
    with open(path) as file:
        return file.read()


@pytest.mark.limit(1800)
def test_every_file_is_where_it_belongs(scratch):
    for prefix in ("/usr", "/opt/dyntrace"):
        folder, found = installed(scratch, prefix)
        headers = {name for name in found if name.startswith("include/dyntrace/")}
        assert found - headers == FILES - headers and "include/dyntrace/dyntrace.h" in headers
        assert f"ExecStart={prefix}/bin/dyntraced" in text(f"{folder}/lib/systemd/system/dyntraced.service")
        assert text(f"{folder}/lib/pkgconfig/dyntrace.pc").startswith(f"prefix={prefix}\n")
        assert os.readlink(f"{folder}/lib/libdyntrace.so") == "libdyntrace.so.0"
        for name in ("dyntrace", "dyntraced"):
            assert subprocess.run([f"{folder}/bin/{name}", "--version"], capture_output=True, text=True,
                                  check=True).stdout == f"{name} 0.1.0\n"
        root = folder[:-len(prefix)]
        make("uninstall", scratch, prefix, root + "/")
        assert files_below(root) == []
