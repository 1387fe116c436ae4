"""A service with each hardening option of systemd's, by itself, under a real systemd: traced whole, or refused with the reason.
And Debian's own hardened redis, many times."""
import os
import subprocess

import pytest

from hardening import OPTIONS, TOGETHER, assert_outcomes
from machine import facts_of


def boot(build, tmp_path, script):
    def install(root):
        subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet"], check=True, capture_output=True,
                       env={**os.environ, "DESTDIR": root})
    return facts_of(str(tmp_path), install, script, [f"--bind-ro={build}:/build"], seconds=800)


@pytest.mark.limit(900)
def test_each_option(build, tmp_path):
    assert_outcomes(boot(build, tmp_path, "torture/hardening_guest.py")["hardened"], [*OPTIONS, TOGETHER])


@pytest.mark.limit(900)
def test_debians_redis_ten_times(build, tmp_path):
    """redis-server.service as Debian ships it, under a load that never ends: all functions with exits, ten visits, two of them killed."""
    facts = boot(build, tmp_path, "torture/redis_guest.py")
    assert facts["started"] == "" and facts["filters"] == ["2", True]
    assert facts["visits"] == [[-9, ""] if number in (3, 7) else [0, True, False] for number in range(10)]
    assert facts["alive"] == [None, "PONG\n", "0\n", True]
