"""The zoo: compilers, linkers, packers, emulators, solvers and editors make the same of the same files, traced as untraced: with
every function probed, with exits, with exits counted, with strings and backtraces. Compared: output, exit status, the files that they make."""
import os
import re
import shutil
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "zoo"))
from tools import TOOLS  # noqa: E402
from ways import WAYS  # noqa: E402


class Bench:
    """A tool, and a new folder per run in which it works."""

    def __init__(self, name, scratch):
        self.tool, self.scratch, self.runs = TOOLS[name], scratch, 0
        program = shutil.which(self.tool.command[0])
        assert program, f"{self.tool.command[0]} isn't installed: .ci/install-packages torture"
        self.program = program

    def words(self, words, folder):
        return [word.replace("{tree}", TREE).replace("{dir}", folder) for word in words]

    def run(self, before=()):
        """(status, output, files made)."""
        folder = os.path.join(self.scratch, "work")
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        env = {**os.environ, "LC_ALL": "C.UTF-8", "HOME": folder, "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_DATE": "@0 +0000",
               "GIT_COMMITTER_DATE": "@0 +0000", "TERM": "dumb", "XDG_CACHE_HOME": folder,
               "SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy", "OPENBLAS_NUM_THREADS": "2"}
        for command in self.tool.before:
            subprocess.run(self.words(command, folder), cwd=folder, env=env, check=True, capture_output=True)
        text = self.tool.text
        if text == "text":
            text = "".join(f"{i} {i * 7919 % 10007} {'xyz'[i % 3] * (i % 50)}\n" for i in range(20000))
        result = subprocess.run([*before, self.program, *self.words(self.tool.command[1:], folder)], cwd=folder, env=env,
                                input=(text or "").replace("{dir}", folder).encode(), capture_output=True, timeout=900)
        made = {}
        for name in self.tool.made:
            assert os.path.exists(os.path.join(folder, name)), result.stderr
            with open(os.path.join(folder, name), "rb") as file:
                made[name] = re.sub(rb"^# Render Date.*\n", b"", file.read(), flags=re.MULTILINE)
        # pids and times are never the same
        output = re.sub(rb"process \d+|\d+ ms\b|\b(nps|time) \d+", b"", result.stdout)
        return result.returncode, output, made, result.stderr.decode(errors="replace")


@pytest.mark.limit(600)
@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("name", TOOLS)
def test_same_work(dyntrace, scratch, name, how):
    bench = Bench(name, scratch)
    expected = bench.run()
    assert expected[1] or any(expected[2].values()), expected[3]
    where = [] if how == "counted" else ["-o", dyntrace.new_output()]
    globs = [word for glob in ("*", *bench.tool.traced) for word in ("--function", glob)]
    result = bench.run([dyntrace.path, "trace", *where, *WAYS[how], *globs, *(["--wait"] if bench.tool.traced else []), "--"])
    print(result[3][:3000])
    assert result[:3] == expected[:3]
