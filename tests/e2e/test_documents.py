"""README.md, docs/tutorial.md and docs/recipes.md: each command runs in the playground, and prints what the document shows, apart from
numbers. All documents run at once, each in a playground of its own. Times by the clock last until the servers have done their work."""
import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import tempfile

import documents
import pytest
from fixtures import ROOT

NAMES = {"README": "README.md", "tutorial": "docs/tutorial.md", "recipes": "docs/recipes.md"}


def chosen(name):
    return [block for block in documents.blocks(os.path.join(ROOT, NAMES[name])) if block.kind == "console" and not block.slow]


CASES = [(name, index) for name in NAMES for index in range(len(chosen(name)))]


@pytest.fixture(scope="module")
def results(build):
    if os.geteuid():
        pytest.skip("only root makes a playground")
    missing = [program for program in ("redis-server", "nginx", "bwrap", "babeltrace2", "ip", "pgrep") if not shutil.which(program)]
    assert not missing, f"{missing}: .ci/install-packages check"
    with concurrent.futures.ThreadPoolExecutor() as pool, tempfile.TemporaryDirectory(prefix="dyntrace-paced-") as folder:
        paced = documents.pace(build, folder)
        running = {name: pool.submit(documents.in_playground, paced, chosen(name)) for name in NAMES}
        return {name: one.result() for name, one in running.items()}


def identity(case):
    return f"{case[0]}-{case[1]}: {chosen(case[0])[case[1]].heading}"


@pytest.mark.limit(200)
@pytest.mark.parametrize("case", CASES, ids=identity)
def test_does_what_it_shows(results, case):
    name, index = case
    block = chosen(name)[index]
    for step, (status, output) in zip(block.steps, results[name][index], strict=True):
        assert status == 0, f"$ {step.command}\n{output}"
        missing, surplus = documents.differences(step.shown, output)
        assert not missing and not surplus, f"$ {step.command}\n{output}\nshown, but not printed: {missing}\nprinted, but not shown: {surplus}"


def test_thirty_recipes():
    """Each has a command, and a hint about each of the other tools; a number is nobody else's."""
    text = open(os.path.join(ROOT, "docs", "recipes.md"), encoding="utf-8").read()
    numbers = [int(number) for number in re.findall(r"^### (\d+)\. ", text, re.M)]
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) >= 30
    parts = re.split(r"^### ", text, flags=re.M)[1:]
    assert not [part.splitlines()[0] for part in parts if "```console" not in part]
    hints = [(part.splitlines()[0], "\n".join(re.findall(r"^- .*", part, re.M))) for part in parts]
    assert not [(name, tool) for name, hint in hints for tool in ("bpftrace", "uftrace", "perf", "LTTng") if tool not in hint]


def test_links_lead_somewhere():
    """Links and pictures of the tree's documents are files of the tree."""
    folders = ["*.md", *(f"{folder}/**/*.md" for folder in ("bench", "docs", "src", "tests", "tools"))]
    names = [name for folder in folders for name in glob.glob(folder, root_dir=ROOT, recursive=True)]
    assert "README.md" in names and "docs/tutorial.md" in names
    for name in names:
        with open(os.path.join(ROOT, name), encoding="utf-8") as file:
            links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", re.sub(r"```.*?```|`[^`\n]*`", "", file.read(), flags=re.S))
        gone = [link for link in links if "://" not in link and not os.path.exists(os.path.join(ROOT, os.path.dirname(name), link))]
        assert not gone, f"{name}: {gone}"


def test_a_release(scratch):
    """Tagged only if all versions agree, the changes have a date, and everything is committed."""
    for name in ("meson.build", "CHANGELOG.md", "debian/changelog", "tools/make-release"):
        os.makedirs(os.path.dirname(os.path.join(scratch, name)), exist_ok=True)
        shutil.copy(os.path.join(ROOT, name), os.path.join(scratch, name))

    def run(*words):
        return subprocess.run(words, cwd=scratch, capture_output=True, text=True)

    def commit():
        run("git", "add", "-A")
        run("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a")

    def change(name, pattern, new):
        with open(os.path.join(scratch, name), encoding="utf-8") as file:
            text = re.sub(pattern, new, file.read(), count=1, flags=re.M)
        with open(os.path.join(scratch, name), "w", encoding="utf-8") as file:
            file.write(text)

    run("git", "init", "-q")
    for key in ("name", "email"):
        run("git", "config", f"user.{key}", "a")
    version = re.search(r"^  version: '(.*)',$", open(os.path.join(ROOT, "meson.build")).read(), re.M)[1]
    change("CHANGELOG.md", r"^## .*", f"## {version}, not released yet")
    commit()
    assert "is the heading of a release" in run("tools/make-release").stderr
    change("CHANGELOG.md", r"^## .*", f"## {version}, 2026-11-16")
    assert run("tools/make-release").stderr == "make-release: there are changes that aren't committed\n"
    commit()
    assert run("tools/make-release").stdout.startswith(f"v{version} is tagged")
    assert run("git", "tag").stdout == f"v{version}\n"
    assert run("tools/make-release").stderr == f"make-release: v{version} is tagged already\n"
    change("debian/changelog", r"^dyntrace \(.*\)", "dyntrace (9.9)")
    assert run("tools/make-release").stderr == f"make-release: meson.build says version {version}, debian/changelog 9.9\n"


def test_uninstall_removes_what_was_installed(tmp_path):
    """And nothing else, also where files were staged. `make install` makes the list (torture/test_install)."""
    def uninstall(stage):
        return subprocess.run(["make", "-s", "-C", ROOT, "uninstall", f"BUILD={tmp_path}", f"DESTDIR={stage}"], capture_output=True, text=True)

    assert "nothing was installed from here" in uninstall(tmp_path).stderr
    for name in ("one", "other"):
        (tmp_path / name / "usr/local/lib/dyntrace").mkdir(parents=True)
        for file in ("bin-dyntrace", "lib/dyntrace/agent", "lib/foreign"):
            (tmp_path / name / "usr/local" / file).write_text("")
    (tmp_path / "installed.txt").write_text("/usr/local/bin-dyntrace\n/usr/local/lib/dyntrace/agent\n")
    assert uninstall(f"{tmp_path}/one/").returncode == 0
    assert sorted(os.listdir(tmp_path / "one/usr/local")) == ["lib"] and os.listdir(tmp_path / "one/usr/local/lib") == ["foreign"]
    assert os.listdir(tmp_path / "other/usr/local/lib/dyntrace") == ["agent"]


def test_versions_agree():
    """The package, the program and the list of changes are of one version."""
    version = re.search(r"^  version: '(.*)',$", open(os.path.join(ROOT, "meson.build")).read(), re.M)[1]
    with open(os.path.join(ROOT, "debian", "changelog")) as package, open(os.path.join(ROOT, "CHANGELOG.md")) as changes:
        assert package.readline().startswith(f"dyntrace ({version}) ")
        assert re.search(r"^## (.*?),", changes.read(), re.M)[1] == version


def test_shapes():
    """Numbers, times and widths don't matter; words, columns and units' places do."""
    shape = documents.shape
    assert shape("  220  1.07 ms   998 us  malloc") == shape("3  10 s  2.00 ns  malloc") != shape("3  10 s  malloc")
    assert shape("09:39:53.437863752 (+?.?????????) ls tid 29 f { a = 1 }") == shape("10:00:00.000000000 (+0.000000001) ls tid 7 f { a = 2 }")
    assert shape("  58   51  181 ms  74.4 ms   -107 ms  -58.9%  f") == shape("  24   19  20.1 ms   214 ms   +194 ms     11x  f")
    assert shape("   8 .. 16   25 |####   | p50") == shape("  16 .. 32   0 |     |")
    assert shape("  1.2 us [7] |   f(a = 1) = 2") == shape("         [9] | f(a = 3) {") == shape(" 99 ns [9] | } f = 2") != shape("  9 s [7] | g() = 2")
    assert documents.differences(["a 1", "..."], "a 2\nb\n") == ([], [])
    assert documents.differences(["a 1"], "a 2\nb\n") == ([], ["b"])
    assert documents.differences(["a 1", "c"], "a 2\n") == (["c"], [])
