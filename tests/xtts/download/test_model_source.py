"""XTTS-v2 is downloaded completely, once, and only after its licence is agreed to."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from machine.settings.loading import SettingsError, SharedSettings, load
from machine.storage.facts import FILE_NAME
from machine.storage.files import DiskFull, WriteError
from machine.storage.locks import wait_for
from tests.file_server import Bad, Server, serving
from tests.published import CONTENTS, publish
from train.base_model import chosen_base, named_base
from xtts.download import model_source, xtts_v2
from xtts.download.http_file import DownloadError
from xtts.download.model_source import ModelSource, cache_folders, provide_xtts_v2
from xtts.download.xtts_v2 import REVISION, FilesError, require_files
from xtts.voices.base_models import BundleError, verified_base_folder

NEEDED = set(CONTENTS) - xtts_v2.OPTIONAL


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    publish(monkeypatch)
    with serving() as file_server:
        file_server.files = {f"/v2/{name}": content for name, content in CONTENTS.items()}
        yield file_server


@pytest.fixture
def source(server: Server, tmp_path: Path) -> ModelSource:
    return ModelSource(tmp_path / "xtts_v2", f"{server.url}/v2")


def settings_of(source: ModelSource, name: str = "xtts_v2") -> SharedSettings:
    return SharedSettings(base_model=name, xtts_v2_dir=source.folder)


def complete(folder: Path) -> bool:
    return all((folder / name).read_bytes() == content for name, content in CONTENTS.items())


def test_nothing_is_asked_for_before_the_licence_is_agreed_to(source, server):
    with pytest.raises(BundleError, match=r"non-commercial.*COQUI_TOS_AGREED=1") as raised:
        chosen_base(replace(settings_of(source), hf_endpoint=server.url))
    assert raised.value.exit_code == 2 and "LICENSE.txt" in str(raised.value)
    assert server.asked == [] and not source.folder.exists()


def test_nothing_is_loaded_before_it_either(source):
    provide_xtts_v2(source)
    with pytest.raises(BundleError, match="COQUI_TOS_AGREED=1"):
        named_base(settings_of(source, str(source.folder)))
    agreed = replace(settings_of(source, str(source.folder)), coqui_tos_agreed=True)
    assert named_base(agreed) == source.folder
    with pytest.raises(BundleError):
        named_base(settings_of(source))


# The download


def test_it_comes_whole_and_once(source, server, caplog):
    caplog.set_level("INFO")
    assert provide_xtts_v2(source) == source.folder
    assert complete(source.folder)
    assert len(server.asked) == len(CONTENTS)
    assert any("CPML" in line and "LICENSE.txt" in line for line in caplog.messages)
    assert provide_xtts_v2(source) == source.folder
    assert len(server.asked) == len(CONTENTS)
    left = {path.name for path in source.folder.iterdir()} - set(CONTENTS)
    assert left == {FILE_NAME, ".download.lock"}


def test_a_stop_in_the_middle_keeps_the_files_that_are_whole(source, server):
    server.bad["/v2/dvae.pth"] = [Bad(status=403)]
    with pytest.raises(DownloadError) as raised:
        provide_xtts_v2(source)
    # The missing files are those that a person would have to copy.
    told = str(raised.value)
    assert "dvae.pth: 700 bytes" in told and "model.pth: 5,000 bytes" in told
    assert "vocab.json:" not in told
    assert f"into {source.folder}" in told and REVISION[:12] in told
    before = len(server.asked)
    provide_xtts_v2(source)
    assert complete(source.folder)
    assert len(server.asked) == before + 2


def test_half_a_file_is_never_used(source, server):
    server.bad["/v2/model.pth"] = [Bad(cut_after=2_000), Bad(status=403)]
    with pytest.raises(DownloadError, match=r"2,000 of 5,000 bytes are kept in .*model\.pth\.part"):
        provide_xtts_v2(source)
    assert not (source.folder / "model.pth").exists()
    with pytest.raises(FilesError, match=r"model\.pth: 5,000 bytes"):
        require_files(source.folder)
    provide_xtts_v2(source)
    assert server.ranges("/v2/model.pth")[-1] == "bytes=2000-"


def test_the_room_for_all_of_it_is_asked_for_first(source, server, monkeypatch):
    usage = type("Usage", (), {"free": 4_000})
    monkeypatch.setattr("machine.storage.files.shutil.disk_usage", lambda _: usage)
    with pytest.raises(DiskFull, match=r"XTTS-v2's files: 10,200 bytes needed, 4,000 free"):
        provide_xtts_v2(source)
    assert server.asked == []


def test_a_folder_that_cannot_be_made_is_named(source, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match=r"v2 .*XTTS_V2_DIR"):
        provide_xtts_v2(ModelSource(tmp_path / "file" / "v2", source.url))


def test_a_wrong_file_that_lies_there_is_neither_used_nor_overwritten(source, server):
    source.folder.mkdir()
    (source.folder / "model.pth").write_bytes(b"my own")
    with pytest.raises(FilesError, match=r"delete them.*BASE_MODEL"):
        provide_xtts_v2(source)
    assert (source.folder / "model.pth").read_bytes() == b"my own"
    assert server.asked == []


def test_two_starts_at_once_download_it_once(source, server):
    server.bad["/v2/model.pth"] = [Bad(cut_after=2_000, stall=False)]
    with ThreadPoolExecutor(3) as starts:
        list(starts.map(provide_xtts_v2, [source] * 3))
    assert complete(source.folder)
    assert len(server.asked) == len(CONTENTS) + 1


def test_the_second_start_says_that_it_waits(source, caplog):
    caplog.set_level("INFO")
    source.folder.mkdir()
    with wait_for(source.folder / ".download.lock", lambda: None):
        second = threading.Thread(target=provide_xtts_v2, args=(source,))
        second.start()
        until = time.monotonic() + 10
        while "waiting" not in caplog.text and time.monotonic() < until:
            time.sleep(0.01)
        assert not (source.folder / "model.pth").exists()
    second.join(30)
    assert "Another process is downloading XTTS-v2" in caplog.text
    assert complete(source.folder)


# Without a network


@pytest.mark.parametrize("mode", [0o755, 0o555])
def test_a_folder_filled_by_hand_asks_nobody(source, server, mode):
    source.folder.mkdir()
    for name in NEEDED:
        (source.folder / name).write_bytes(CONTENTS[name])
    source.folder.chmod(mode)
    assert provide_xtts_v2(source) == source.folder
    assert server.asked == []


@pytest.mark.parametrize("links", [True, False])
def test_a_cache_of_the_hub_is_taken_over(source, server, tmp_path, monkeypatch, links):
    snapshot, _ = cache_folders(tmp_path / "home")
    blobs = snapshot.parents[1] / "blobs"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for name, content in CONTENTS.items():
        (blobs / f"blob-{name}").write_bytes(content)
        (snapshot / name).symlink_to(blobs / f"blob-{name}")
    if not links:
        monkeypatch.setattr(model_source.os, "link", _no_links)
    provide_xtts_v2(ModelSource(source.folder, source.url, (snapshot,)))
    assert complete(source.folder)
    assert server.asked == []
    assert not (source.folder / "model.pth").is_symlink()


def _no_links(*_: object) -> None:
    raise OSError(18, "Invalid cross-device link")


def test_what_a_cache_lacks_or_has_damaged_is_downloaded(source, server, tmp_path):
    _, coqui = cache_folders(tmp_path / "home")
    coqui.mkdir(parents=True)
    for name in ("config.json", "vocab.json", "model.pth"):
        (coqui / name).write_bytes(CONTENTS[name])
    (coqui / "model.pth").write_bytes(bytes(5_000))
    provide_xtts_v2(ModelSource(source.folder, source.url, (tmp_path / "none", coqui)))
    assert complete(source.folder)
    asked = {path.removeprefix("/v2/") for path, _ in server.asked}
    assert asked == set(CONTENTS) - {"config.json", "vocab.json"}


# Settings


def test_the_address_is_the_pinned_revision_at_the_hub_or_at_its_mirror():
    at = f"coqui/XTTS-v2/resolve/{REVISION}"
    assert ModelSource.of(SharedSettings()).url == f"https://huggingface.co/{at}"
    assert ModelSource.of(SharedSettings()).folder == Path("train/xtts_v2")
    mirror = SharedSettings(hf_endpoint="https://hub.example/")
    assert ModelSource.of(mirror).url == f"https://hub.example/{at}"


@pytest.mark.parametrize("value", ["files.example", "ftp://a/b", "https://user:key@host/x"])
def test_an_address_that_is_none_is_refused(value):
    with pytest.raises(SettingsError, match=r"HF_ENDPOINT is .*an http or https address"):
        load(SharedSettings, (), {"HF_ENDPOINT": value}, None)


# A checkpoint's base


def test_a_checkpoint_made_from_it_finds_it_and_downloads_nothing(source, server, tmp_path):
    provenance = {"base": {"name": "xtts_v2", "sha256": xtts_v2.XTTS_V2["model.pth"].sha256}}
    checkpoint = Path("checkpoint_epoch_1.pt")
    with pytest.raises(BundleError, match=r"checkpoint_epoch_1.*COQUI_TOS_AGREED=1"):
        verified_base_folder(checkpoint, provenance, None, source.folder)
    with pytest.raises(FilesError, match=r"Put these files of coqui/XTTS-v2"):
        verified_base_folder(checkpoint, provenance, None, source.folder, tos_agreed=True)
    assert server.asked == []
    provide_xtts_v2(source)
    base = verified_base_folder(checkpoint, provenance, None, source.folder, tos_agreed=True)
    assert base == source.folder
