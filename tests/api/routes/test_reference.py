"""/docs: the API reference, with files of this service only."""

import re

import httpx
import pytest

from tests.api.conftest import running, settings_in


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    with running(settings_in(folder, api_key="correct-horse")) as service:
        with httpx.Client(base_url=service.address, timeout=60) as client:
            yield client


def test_it_opens_without_the_key_and_its_files_are_there(locked):
    page = locked.get("/docs")
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    names = re.findall(r'(?:src|href)="(page/[^"]+)"', page.text)
    assert "page/reference.js" in names
    for name in names:
        assert locked.get(f"/{name}").status_code == 200, name


def test_nothing_of_it_comes_from_elsewhere_or_stands_in_the_page(locked):
    page = locked.get("/docs")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", page.text)
    assert not re.search(r"<style|<script(?![^>]*\bsrc=)|\bstyle=|\bon[a-z]+=", page.text)


def test_what_it_reads_needs_the_key(locked):
    assert locked.get("/openapi.json").status_code == 401
    key = {"Authorization": "Bearer correct-horse"}
    document = locked.get("/openapi.json", headers=key).json()
    assert "/v1/audio/speech" in document["paths"] and "/docs" not in document["paths"]


def test_the_page_links_to_it(locked):
    page = locked.get("/", headers={"Accept": "text/html"})
    assert '<a href="docs">' in page.text
