"""Files and folders are written whole or not at all, and nothing is replaced that the user did not ask to replace."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from visl.errors import InputError

PathLike = str | os.PathLike[str]
Writer = Callable[[Path], None]


def check_output(path: PathLike, force: bool = False, *, marker: str | None = None) -> None:
    """Refuse an output that could not be written later; to be called before the hours of work behind it.

    marker: the output is a folder of ours, told by this file in it; None: the output is a file.
    """
    target = Path(path)
    _check_parent(target)
    if not os.path.lexists(target):
        return
    if marker is not None:
        _check_old_folder(target, marker)
    else:
        _check_old_file(target)
    if not force:
        raise _exists(target)


def write_whole(path: PathLike, content: bytes | str | Writer, force: bool = False) -> None:
    """Write a file: the bytes, the text as UTF-8, or what `content(temporary path)` writes."""
    check_output(path, force)
    target = Path(os.path.realpath(path))  # a link stays a link: the file behind it is replaced
    temporary = _sibling(target)
    with _explained(path):
        try:
            _fill(temporary, content)
            _place_file(temporary, target, force)
        finally:
            temporary.unlink(missing_ok=True)
    _sync_folder(target.parent)


def write_folder_whole(path: PathLike, writer: Writer, force: bool = False, *, marker: str) -> None:
    """Write a folder: `writer(temporary folder)` fills it.

    With force an old folder is replaced, but only if it is empty or holds the file `marker`: no other folder is ours
    to delete.
    """
    check_output(path, force, marker=marker)
    target = Path(os.path.realpath(path))
    temporary = _sibling(target)
    with _explained(path):
        try:
            temporary.mkdir()
            writer(temporary)
            _sync_tree(temporary)
            _place_folder(temporary, target, force)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    _sync_folder(target.parent)


@contextmanager
def claim(path: PathLike, wait: float = 0.0) -> Iterator[None]:
    """Keep other visl commands from writing the same output; the system frees the claim of a process that dies.

    wait: seconds that another one is given to finish
    """
    _check_parent(Path(path))
    target = Path(os.path.realpath(path))
    lock_path = target.with_name(f".{target.name}.lock")
    lock = FileLock(lock_path, timeout=wait)
    try:
        lock.acquire()
    except Timeout:
        raise InputError(f"another visl command is writing {path}: wait for it or choose another --out") from None
    except (OSError, NotImplementedError) as error:
        raise InputError(f"could not lock {path}: {_reason(error)}; choose another --out") from error
    try:
        yield
    finally:
        # Before the release: once released, the file may be another command's. Windows removes it by itself.
        with suppress(OSError):
            lock_path.unlink()
        lock.release()


def _exists(path: Path) -> InputError:
    return InputError(f"{path} exists: choose another name, or pass --force (overwrite=True in Python)")


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


@contextmanager
def _explained(path: PathLike) -> Iterator[None]:
    """An error of the system, a full disk for one, in words; the old output is still as it was."""
    try:
        yield
    except OSError as error:
        raise InputError(f"could not write {path}: {_reason(error)}; nothing was changed") from error


def _check_parent(target: Path) -> None:
    folder = target.parent
    if not folder.exists():
        raise InputError(f"cannot write {target}: folder {folder} does not exist: create it first")
    if not folder.is_dir():
        raise InputError(f"cannot write {target}: {folder} is a file, not a folder: choose another name")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"cannot write {target}: folder {folder} is not writable: choose another folder")


def _check_old_file(target: Path) -> None:
    if target.is_dir():
        raise InputError(f"{target} is a folder: choose the name of a file")
    # Replacing a device or a pipe would destroy it. A link that leads nowhere may be filled.
    if target.exists() and not target.is_file():
        raise InputError(f"{target} is not a regular file: choose another name")


def _check_old_folder(target: Path, marker: str) -> None:
    if not target.is_dir():
        raise InputError(f"{target} is a file, and a folder is to be written: choose another name")
    if not (target / marker).is_file() and any(target.iterdir()):
        raise InputError(
            f"{target} is a folder with other content (no {marker} in it), which is never replaced: choose another name"
        )


def _sibling(target: Path) -> Path:
    """A new hidden name in the same folder, thus on the same disk; it keeps the suffix, which some writers go by."""
    return target.with_name(f".visl-{secrets.token_hex(6)}{''.join(target.suffixes)}")


def _fill(temporary: Path, content: bytes | str | Writer) -> None:
    if callable(content):
        content(temporary)
    else:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
    _sync(temporary)


def _place_file(temporary: Path, target: Path, force: bool) -> None:
    """Give the finished file its name; without force, never in place of what another process put there meanwhile."""
    if force:
        with suppress(OSError):
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
        return
    try:
        try:
            os.link(temporary, target)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            _place_by_reserving(temporary, target)
    except FileExistsError:
        raise _exists(target) from None


def _place_by_reserving(temporary: Path, target: Path) -> None:
    """Take the name with an empty file, which only one process can, then replace that."""
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    try:
        os.replace(temporary, target)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _place_folder(temporary: Path, target: Path, force: bool) -> None:
    if not force and target.exists():
        raise _exists(target)
    old = _sibling(target)
    moved_away = target.exists()
    if moved_away:
        os.rename(target, old)
    try:
        os.rename(temporary, target)
    except BaseException:
        if moved_away:
            os.rename(old, target)
        raise
    if moved_away:
        shutil.rmtree(old, ignore_errors=True)


def _sync(path: Path) -> None:
    """Onto the disk before the file gets its name: a full disk shows here, and a power cut leaves no empty file."""
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_tree(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            _sync(path)


def _sync_folder(folder: Path) -> None:
    """The new name onto the disk, where the system can do that; the file itself is safe already."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
