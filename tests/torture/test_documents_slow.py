"""The commands of the documents that e2e/test_documents.py leaves out: they need servers that take long to start, or a systemd."""
import os
import struct
import subprocess

import documents
import pytest
from fixtures import ROOT
from machine import facts_of

POSTGRES = "/usr/lib/postgresql/15/bin"
# What runs before a lane's blocks.
STAGES = {
    "postgres": [
        "install -d -o postgres pg && chmod 755 .",
        f"cd pg && runuser -u postgres -- {POSTGRES}/initdb -D data >log && cd ..",
        f"cd pg && runuser -u postgres -- {POSTGRES}/pg_ctl -w -D data -o \"-k $PWD\" -l server.log start && cd ..",
        "(cd pg; while :; do echo 'select count(*) from pg_class;'; echo 'select pg_sleep(0.01);'; done | "
        "runuser -u postgres -- psql -q -h $PWD -d postgres >/dev/null 2>&1) &",
        "until pgrep -f 'postgres: postgres postgres' >/dev/null; do sleep 0.1; done",
    ],
    "lttng": [],
}


def chosen(lane):
    return [block for name in ("README.md", "docs/tutorial.md", "docs/recipes.md") for block in documents.blocks(os.path.join(ROOT, name))
            if block.slow and block.lane == lane]


def staged(lane):
    """The blocks of a lane, behind its stage."""
    stage = documents.Block("stage", "console", [lane], "", (0, 0))
    stage.steps = [documents.Step(command, ["..."]) for command in STAGES[lane]]
    return [stage, *chosen(lane)]


def check(blocks, results):
    for block, steps in zip(blocks, results, strict=True):
        for step, (status, output) in zip(block.steps, steps, strict=True):
            assert status == 0, f"$ {step.command}\n{output}"
            assert documents.differences(step.shown, output) == ([], []), f"$ {step.command}\n{output}"


@pytest.mark.limit(300)
@pytest.mark.parametrize("lane", STAGES)
def test_does_what_it_shows(build, lane):
    blocks = staged(lane)
    results = documents.in_playground(build, blocks)
    check(blocks, [results[index] for index in range(len(blocks))])


@pytest.mark.limit(600)
def test_a_service_of_systemd(build, tmp_path):
    """In a machine under a real systemd, with Debian's own redis-server.service."""
    facts = facts_of(str(tmp_path), lambda root: None, "torture/documents_guest.py", [f"--bind-ro={build}:/build"], seconds=300)
    blocks = chosen("systemd")
    check(blocks, facts["results"])


def test_every_lane_has_a_test():
    lanes = {block.lane for name in ("README.md", "docs/tutorial.md", "docs/recipes.md")
             for block in documents.blocks(os.path.join(ROOT, name)) if block.slow}
    assert lanes == {*STAGES, "systemd"}


@pytest.mark.limit(3000)
def test_readme_from_a_clone_to_an_installation(tmp_path):
    """The blocks without output, in a clone of their own; then all other commands of the README with the installed dyntrace.
    `make check` and `make bench` would be hours."""
    clone = str(tmp_path / "clone")
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    text = documents.blocks(os.path.join(ROOT, "README.md"))
    begin = documents.Block("stage", "console", [], "", (0, 0))
    begin.steps = [documents.Step(f"mount -t tmpfs tmpfs /usr/local && rm -f build && cd {clone}", [])]
    shell = sorted((block for block in text if block.kind == "sh"), key=lambda block: block.steps[0].command.startswith("cc "))  # installed
    for block in shell:
        block.steps = [step for step in block.steps if step.command and not step.command.startswith(("make check", "make bench", "./hits"))]
    path = documents.Block("installed", "console", [], "", (0, 0))
    path.steps = [documents.Step("cd $PLAYGROUND; export PATH=/usr/local/bin:$PATH; hash -r", [])]
    installed = [block for block in text if block.kind == "console"]
    for block in installed:
        for step in block.steps:
            step.command = step.command.replace("build/", "")
    blocks = [begin, *shell, path, *installed]
    results = documents.in_playground("/nonexistent", blocks, {"DOCUMENTS_PATIENCE": "2000"})
    for index, block in enumerate(blocks):
        for step, (status, output) in zip(block.steps, results[index], strict=True):
            assert status == 0, f"$ {step.command}\n{output}"
            if block in installed:
                assert documents.differences(step.shown, output) == ([], []), f"$ {step.command}\n{output}"


@pytest.mark.limit(300)
def test_pictures_of_a_terminal(build, scratch):
    """docs/pictures/make-terminal still makes them: a screen full of colours and rows, drawn to its whole size."""
    if os.geteuid():
        pytest.skip("only root makes a playground")
    subprocess.run([os.path.join(ROOT, "docs", "pictures", "make-terminal"), scratch], check=True,
                   env={**os.environ, "DYNTRACE_BUILD": build})
    for name in ("top.png", "tree.png"):
        with open(os.path.join(scratch, name), "rb") as file:
            head = file.read(24)
        width, height = struct.unpack(">II", head[16:])
        assert head[:8] == b"\x89PNG\r\n\x1a\n" and width > 500 and height > 300
