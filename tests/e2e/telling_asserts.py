"""Failed asserts of the modules that tests share tell their values, as those of the tests themselves: pytest rewrites only tests by itself."""
import glob
import os

import pytest

pytest.register_assert_rewrite(*(os.path.basename(path)[:-len(".py")] for path in
                                 glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "[!t]*.py"))))
