"""tests/mutants: every mutant can be applied, and its rule and its tests exist."""
import importlib.machinery
import importlib.util
import pathlib
import re

import test_tree

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "mutants"
loader = importlib.machinery.SourceFileLoader("mutants_run", str(FOLDER / "run"))
runner = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutants_run", loader))
loader.exec_module(runner)


def hazards():
    return set(re.findall(r"^\| (H\d+) \|", (test_tree.ROOT / "docs" / "hazards.md").read_text(), re.M))


def test_every_mutant_can_be_applied():
    assert not {runner.title(mutant): why for mutant in runner.read_mutants() if (why := runner.apply_error(mutant))}


def test_mutants_are_of_rules_that_exist():
    """`make mutants` counts rules without a mutant as survived."""
    known, excused = runner.rules()
    mutated = {mutant["rule"] for mutant in runner.read_mutants()}
    assert mutated <= known | hazards()
    assert excused <= known - mutated


def test_named_tests_exist():
    missing = set()
    for mutant in runner.read_mutants():
        for test in mutant["tests"]:
            kind, _, rest = test.partition("/")
            name, _, words = rest.partition(":")
            suffix = ".c" if kind == "unit" else ".py"
            path = FOLDER.parent / kind / f"test_{name}{suffix}"
            text = path.read_text() if path.exists() else ""
            if not text or not all(word in text for word in re.findall(r"test_\w+", words)):
                missing.add(test)
    assert not missing


def test_a_text_is_found_however_it_is_broken():
    assert runner.mutate({"find": "if (a) b();", "put": "c();"}, "x\n\tif (a)\n\t\tb();\ny") == "x\n\tc();\ny"
    assert runner.mutate({"find": "b();", "put": ""}, "b(); b();") is None
