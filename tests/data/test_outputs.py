import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from visl.data.outputs import check_output, claim, write_folder_whole, write_whole
from visl.errors import InputError

MARKER = "visl-model.json"


@pytest.fixture
def full_disk(monkeypatch):
    def fail(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def fill(text: str):
    def writer(folder: Path) -> None:
        (folder / MARKER).write_text(text)
        (folder / "part").mkdir()
        (folder / "part" / "weights").write_text(text)

    return writer


@pytest.mark.parametrize("given", [b"a\xc3\xa4", "aä", lambda path: path.write_bytes(b"a\xc3\xa4")])
def test_write_whole_writes_bytes_text_and_what_a_writer_writes(tmp_path, given):
    write_whole(tmp_path / "out.txt", given)
    assert content(tmp_path) == {"out.txt": b"a\xc3\xa4"}


def test_a_writer_sees_the_suffix(tmp_path):
    seen = []
    write_whole(tmp_path / "out.csv.gz", lambda path: (seen.append(path.name), path.touch())[0])
    assert seen[0].endswith(".csv.gz")


def test_permissions_are_those_of_any_new_file_and_stay_with_force(tmp_path):
    plain, ours = tmp_path / "plain", tmp_path / "ours"
    plain.write_text("")
    write_whole(ours, "")
    assert stat.S_IMODE(ours.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    ours.chmod(0o640)
    write_whole(ours, "new", force=True)
    assert stat.S_IMODE(ours.stat().st_mode) == 0o640


def test_existing_output_needs_force(tmp_path):
    target = tmp_path / "out.txt"
    target.write_text("old")
    for attempt in (lambda: check_output(target, False), lambda: write_whole(target, "new")):
        with pytest.raises(InputError, match="out.txt exists: choose another name, or pass --force"):
            attempt()
    assert content(tmp_path) == {"out.txt": b"old"}
    check_output(target, True)
    write_whole(target, "new", force=True)
    assert content(tmp_path) == {"out.txt": b"new"}


def test_bad_folders_are_refused_and_nothing_is_made(tmp_path):
    (tmp_path / "file").write_text("x")
    for path, message in [
        (tmp_path / "none" / "out.txt", "folder .*none does not exist: create it first"),
        (tmp_path / "file" / "out.txt", "file is a file, not a folder"),
    ]:
        for attempt in (lambda p: check_output(p, True), lambda p: write_whole(p, "", force=True), _claim_once):
            with pytest.raises(InputError, match=message):
                attempt(path)
    with pytest.raises(InputError, match="is a folder: choose the name of a file"):
        write_whole(tmp_path, "", force=True)
    assert content(tmp_path) == {"file": b"x"}


def _claim_once(path):
    with claim(path):
        pass


def test_unwritable_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # the superuser may write everywhere
    with pytest.raises(InputError, match="is not writable: choose another folder"):
        check_output(tmp_path / "out.txt", False)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_never_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe is not a regular file"):
        write_whole(tmp_path / "pipe", "", force=True)


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_whole(tmp_path / "link", "new", force=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


@pytest.mark.parametrize("force", [False, True])
def test_full_disk_changes_nothing(tmp_path, full_disk, force):
    if force:
        (tmp_path / "out.txt").write_text("old")
    before = content(tmp_path)
    with pytest.raises(InputError, match=r"could not write .*out.txt: No space left on device; nothing was changed"):
        write_whole(tmp_path / "out.txt", "new", force=force)
    assert content(tmp_path) == before


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failing_writer_leaves_nothing(tmp_path, error):
    def writer(path: Path) -> None:
        path.write_text("half")
        raise error

    (tmp_path / "out.txt").write_text("old")
    with pytest.raises(error):
        write_whole(tmp_path / "out.txt", writer, force=True)
    assert content(tmp_path) == {"out.txt": b"old"}


@pytest.mark.parametrize("hard_links", [True, False])
def test_a_file_that_appears_meanwhile_is_kept(tmp_path, monkeypatch, hard_links):
    if not hard_links:
        monkeypatch.setattr(os, "link", _no_links)

    def writer(path: Path) -> None:
        path.write_text("ours")
        (tmp_path / "out.txt").write_text("theirs")

    with pytest.raises(InputError, match="exists"):
        write_whole(tmp_path / "out.txt", writer)
    assert content(tmp_path) == {"out.txt": b"theirs"}


def test_a_disk_without_hard_links_works(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", _no_links)
    write_whole(tmp_path / "out.txt", "new")
    assert content(tmp_path) == {"out.txt": b"new"}


def _no_links(source, target):
    raise OSError(errno.EPERM, "Operation not permitted")


def test_folder_is_written_and_replaced_with_force(tmp_path):
    target = tmp_path / "model"
    write_folder_whole(target, fill("one"), marker=MARKER)
    assert content(target) == {MARKER: b"one", "part/weights": b"one"}
    with pytest.raises(InputError, match="model exists"):
        write_folder_whole(target, fill("two"), marker=MARKER)
    write_folder_whole(target, fill("two"), force=True, marker=MARKER)
    assert content(target) == {MARKER: b"two", "part/weights": b"two"}
    assert os.listdir(tmp_path) == ["model"]


def test_an_empty_folder_may_be_replaced(tmp_path):
    (tmp_path / "model").mkdir()
    write_folder_whole(tmp_path / "model", fill("one"), force=True, marker=MARKER)
    assert (tmp_path / "model" / MARKER).read_text() == "one"


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_of_others_is_never_replaced(tmp_path, force):
    target = tmp_path / "model"
    target.mkdir()
    (target / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match=f"model is a folder with other content .no {MARKER} in it.*choose another"):
        write_folder_whole(target, fill("one"), force=force, marker=MARKER)
    with pytest.raises(InputError, match="thesis.txt is a file, and a folder is to be written"):
        write_folder_whole(target / "thesis.txt", fill("one"), force=force, marker=MARKER)
    assert content(tmp_path) == {"model/thesis.txt": b"years of work"}


@pytest.mark.parametrize("force", [False, True])
def test_full_disk_leaves_the_old_folder(tmp_path, full_disk, force):
    if force:
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / MARKER).write_text("old")
    before = content(tmp_path)
    with pytest.raises(InputError, match="model: No space left on device; nothing was changed"):
        write_folder_whole(tmp_path / "model", fill("new"), force=force, marker=MARKER)
    assert content(tmp_path) == before
    assert os.listdir(tmp_path) == (["model"] if force else [])


def test_the_old_folder_comes_back_if_the_new_one_cannot_get_its_name(tmp_path, monkeypatch):
    target = tmp_path / "model"
    write_folder_whole(target, fill("old"), marker=MARKER)
    rename, calls = os.rename, []

    def second_fails(source, destination):
        calls.append(destination)
        if len(calls) == 2:
            raise OSError(errno.EIO, "Input/output error")
        rename(source, destination)

    monkeypatch.setattr(os, "rename", second_fails)
    with pytest.raises(InputError, match="Input/output error; nothing was changed"):
        write_folder_whole(target, fill("new"), force=True, marker=MARKER)
    assert content(target) == {MARKER: b"old", "part/weights": b"old"}
    assert os.listdir(tmp_path) == ["model"]


def test_claim_within_a_process(tmp_path):
    target = tmp_path / "out.csv"
    with claim(target):
        with pytest.raises(InputError, match="another visl command is writing .*out.csv: wait for it or choose"):
            _claim_once(target)
        with claim(tmp_path / "other.csv"):
            pass
        write_whole(target, "x")
    assert os.listdir(tmp_path) == ["out.csv"]
    _claim_once(target)


def test_claim_of_another_process_holds_until_it_dies(tmp_path):
    target = tmp_path / "out.csv"
    script = (
        "import sys, time\nfrom visl.data.outputs import claim\n"
        "with claim(sys.argv[1]):\n    print('claimed', flush=True)\n    time.sleep(60)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", script, str(target)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "claimed\n"
        with pytest.raises(InputError, match="another visl command is writing"):
            _claim_once(target)
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    _claim_once(target)
    assert os.listdir(tmp_path) == []
