"""A language added to a base, on the page of the real service."""

from dataclasses import replace

import pytest

from api.app import child_options
from tests.api.conftest import NO_GPU, QUICK, running, settings_in
from tests.api.page.desk import SECONDS, speak, until
from tests.extras.languages.languages import greek_voice

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]


def test_the_page_lists_the_language_by_its_name_and_speaks_in_it(tmp_path, open_page):
    settings = settings_in(tmp_path, voice=str(greek_voice(tmp_path)))
    how = replace(child_options(settings), look_at_machine=lambda: NO_GPU)
    patient = replace(QUICK, deadline_seconds=120.0, hang_seconds=60.0)
    with running(settings, how, patient, threads=1) as service:
        page = open_page(service.address)
        until(page, "document.getElementById('language').options.length > 3")
        offered = page.locator("#language option").all_text_contents()
        assert offered == ["Default", "English", "Greek", "Portuguese"]
        page.select_option("#language", label="Greek")
        with page.expect_request("**/v1/audio/speech") as asked:
            speak(page, "Καλημέρα, τι κάνεις;")
        assert asked.value.post_data_json["language"] == "el"
        assert page.is_hidden("#speak-fault"), page.text_content("#speak-fault")
        until(page, f"{SECONDS} > 0.1")
