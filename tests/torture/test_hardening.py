"""A service with each hardening option of systemd's, by itself, under a real systemd: traced whole, or refused with the reason."""
import os
import subprocess

import pytest

from hardening import OPTIONS, TOGETHER, assert_outcomes
from machine import facts_of


@pytest.mark.limit(900)
def test_each_option(build, tmp_path):
    def install(root):
        subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet"], check=True, capture_output=True,
                       env={**os.environ, "DESTDIR": root})
    facts = facts_of(str(tmp_path), install, "torture/hardening_guest.py", [f"--bind-ro={build}:/build"], seconds=800)
    assert_outcomes(facts["hardened"], [*OPTIONS, TOGETHER])
