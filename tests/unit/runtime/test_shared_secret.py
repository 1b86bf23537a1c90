import os
import stat

import pytest

from highwater.model.errors import ConfigError, UnwritableDirectoryError
from highwater.runtime import reloaded_files
from highwater.runtime.shared_secret import (
    FILE_BYTES_MAX,
    SECRETS_MAX,
    SharedSecret,
    is_open_to_others,
    make_secret,
)

ONE, TWO = "a" * 16, "Bb-._~+/=9" * 2


def failed(error):
    raise AssertionError(str(error))


def secret_of(path, text):
    path.write_text(text)
    return SharedSecret(path, on_failure=failed)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "secret"


def test_it_is_shown_and_recognised(path):
    secret = secret_of(path, f"{ONE}\n")
    assert secret.proof == f"Bearer {ONE}"
    assert secret.is_proved_by(secret.proof)
    assert secret.is_proved_by(secret.proof.encode())


@pytest.mark.parametrize(
    "shown", ["", ONE, f"Bearer {ONE}x", f"Bearer {ONE[1:]}", f"bearer {ONE}", "Bearer ", "\udcff", b"\xff"]
)  # fmt: skip
def test_everything_else_is_not(path, shown):
    assert not secret_of(path, ONE).is_proved_by(shown)


def test_every_line_is_accepted_and_the_first_one_shown(path):
    secret = secret_of(path, f"\n {TWO} \n\n{ONE}\n")
    assert secret.proof == f"Bearer {TWO}"
    assert secret.is_proved_by(f"Bearer {ONE}")
    assert secret.is_proved_by(f"Bearer {TWO}")


def test_a_changed_file_counts_without_a_restart(path, monkeypatch):
    monkeypatch.setattr(reloaded_files, "LOOK_S", 0.0)
    secret = secret_of(path, ONE)
    path.write_text(TWO)
    assert secret.proof == f"Bearer {TWO}"
    assert not secret.is_proved_by(f"Bearer {ONE}")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "1 to 10 lines"),
        (" \n\n", "1 to 10 lines"),
        ("short", "secret 1 must have 16 to 512 characters"),
        (f"{ONE}\n{'x' * 513}", "secret 2 must have 16 to 512"),
        (f"{ONE} {TWO}", "secret 1 has characters other than"),
        ("ü" * 16, "secret 1 has characters other than"),
        (f"{ONE}\n" * (SECRETS_MAX + 1), "1 to 10 lines"),
        (ONE * (FILE_BYTES_MAX // len(ONE) + 1), "1 to 10 lines"),
    ],
)
def test_files_that_hold_no_secret_are_refused_without_telling_it(path, text, why):
    with pytest.raises(ConfigError, match=why) as caught:
        secret_of(path, text)
    assert str(path) in str(caught.value)
    for word in text.split():
        assert word not in str(caught.value)


def test_a_file_that_is_not_there(path):
    with pytest.raises(ConfigError, match=f"cannot read the secret file {path}: No such file"):
        SharedSecret(path, on_failure=failed)


def test_nothing_tells_it(path):
    secret = secret_of(path, TWO)
    assert TWO not in f"{secret!r} {secret} {vars(secret)}"


def test_a_new_one_is_for_this_user_only_and_stays(path):
    former = os.umask(0)
    try:
        make_secret(path)
    finally:
        os.umask(former)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    made = path.read_text()
    SharedSecret(path, on_failure=failed)
    make_secret(path)
    assert path.read_text() == made
    assert [one.name for one in path.parent.iterdir()] == ["secret"]


def test_no_two_are_the_same(tmp_path):
    made = set()
    for number in range(5):
        make_secret(tmp_path / str(number))
        made.add((tmp_path / str(number)).read_text())
    assert len(made) == 5


def test_a_directory_that_takes_none(tmp_path):
    with pytest.raises(UnwritableDirectoryError):
        make_secret(tmp_path / "none" / "secret")


def test_whether_others_may_read_it(path):
    path.write_text(ONE)
    path.chmod(0o600)
    assert not is_open_to_others(path)
    path.chmod(0o640)
    assert is_open_to_others(path)
    assert not is_open_to_others(path.with_name("absent"))
