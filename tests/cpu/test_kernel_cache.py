"""Compiled kernels are found again by what they were compiled from, and nowhere else."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import numba
import pytest

from qanat.backends.cpu import kernel_cache
from qanat.backends.cpu.kernel_cache import (
    compilation_notice,
    forget_kernels,
    is_compiled,
    kernel_folder,
    use_kernel_cache,
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QANAT_CACHE", str(tmp_path))
    monkeypatch.setattr(numba.config, "CACHE_DIR", numba.config.CACHE_DIR)  # comes back at the end


def pretend_to_compile() -> None:
    kernel_folder().mkdir(parents=True, exist_ok=True)
    (kernel_folder() / "run_int8.run_int8-1.nbc").touch()


def test_forgotten_kernels_are_gone() -> None:
    pretend_to_compile()
    assert is_compiled("int8")
    assert not is_compiled("bf16")
    forget_kernels()
    assert not is_compiled("int8")


@pytest.mark.parametrize("other", ["place", "time", "contents", "Python", "instructions"])
def test_kernels_of_other_origin_do_not_count_as_compiled(
    other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numba would compile again, so the half minute must be announced."""
    here, copy = Path(kernel_cache.__file__).parent.parent, tmp_path / "copy"
    shutil.copytree(here, copy)
    monkeypatch.setattr(kernel_cache, "__file__", str(copy / "cpu" / "kernel_cache.py"))
    pretend_to_compile()
    assert is_compiled("int8")
    source = copy / "cpu" / "kernels" / "norm.py"
    if other == "place":
        copy.rename(tmp_path / "moved")
        monkeypatch.setattr(kernel_cache, "__file__", str(tmp_path / "moved" / "cpu" / "kernel_cache.py"))
    elif other == "time":
        os.utime(source, (1, 1))
    elif other == "contents":
        at = source.stat()
        source.write_bytes(source.read_bytes() + b"#")
        os.utime(source, ns=(at.st_atime_ns, at.st_mtime_ns))
    elif other == "Python":
        monkeypatch.setattr(sys.implementation, "cache_tag", "cpython-399")
    else:
        monkeypatch.setattr(kernel_cache, "INSTRUCTION_SET", "another")
    assert not is_compiled("int8")


def test_a_notice_says_how_often_the_wait_will_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_kernel_cache()
    assert Path(numba.config.CACHE_DIR) == kernel_folder()
    assert "once" in str(compilation_notice("int8"))
    pretend_to_compile()
    assert compilation_notice("int8") is None

    (tmp_path / "file").write_text("")
    monkeypatch.setenv("QANAT_CACHE", str(tmp_path / "file" / "below"))
    use_kernel_cache()
    notice = str(compilation_notice("int8"))
    assert "every start" in notice
    assert "QANAT_CACHE" in notice


def test_without_a_writable_place_kernels_lie_in_a_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not beside the sources, where Numba would take what is out of date."""
    at_exit = []
    monkeypatch.setattr(kernel_cache.atexit, "register", lambda *what, **how: at_exit.append((what, how)))
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("QANAT_CACHE", str(tmp_path / "file" / "below"))
    use_kernel_cache()
    folder = Path(numba.config.CACHE_DIR)
    assert folder.is_dir()
    assert tmp_path not in folder.parents
    ((act, *what), how) = at_exit[0]
    act(*what, **how)
    assert not folder.exists()
