"""Settings of all tests. It also puts this folder on the path, so that tests in subfolders find `core_helpers`."""

import os

# One thread for each test process: several of them share the cores, and waiting threads would starve each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import settings  # noqa: E402

settings.register_profile("visl", deadline=None, derandomize=True)
settings.load_profile("visl")
