"""The long tests have the fixtures of the end-to-end tests, and more time."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import fixtures  # noqa: E402
from fixtures import *  # noqa: E402, F401, F403

fixtures.LIMIT = 3600
