"""Which files a dataset accepts as recordings."""

from api.page_files import page
from extras.studio.datasets import uploads
from xtts.sound_endings import SOUND_ENDINGS


def test_the_recordings_of_a_dataset_have_the_one_list_of_endings():
    assert uploads.SOUND_ENDINGS is SOUND_ENDINGS
    text = page()
    accepted = text.partition('id="recording-files" data-drops multiple accept="')[2].partition('"')[0]
    assert accepted.split(",") == list(SOUND_ENDINGS)
