import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import telling_asserts  # noqa: E402, F401 - first: it is about the modules that are imported after it
from fixtures import *  # noqa: E402, F401, F403
