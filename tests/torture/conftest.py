"""The long tests have the fixtures of the end-to-end tests, and more time.

DYNTRACE_TORTURE multiplies their length. Below 1 it also thins tests with many parameters: that share of them is run, at least two
per test, evenly spread."""
import collections
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import telling_asserts  # noqa: E402, F401 - first: it is about the modules that are imported after it
import fixtures  # noqa: E402
from fixtures import *  # noqa: E402, F401, F403

fixtures.LIMIT = 3600

FACTOR = float(os.environ.get("DYNTRACE_TORTURE", "1"))


def pytest_collection_modifyitems(config, items):
    if FACTOR >= 1 or config.option.keyword:  # (-k: these are wanted)
        return
    groups = collections.defaultdict(list)
    for item in items:
        groups[item.nodeid.partition("[")[0]].append(item)
    kept = set()
    for group in groups.values():
        count = min(len(group), max(round(len(group) * FACTOR), 2))
        kept |= {group[at * len(group) // count] for at in range(count)}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]
