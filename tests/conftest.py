"""Settings of all tests. It also puts this folder on the path, so that tests in subfolders find `core_helpers`."""

from hypothesis import settings

settings.register_profile("visl", deadline=None, derandomize=True)
settings.load_profile("visl")
