"""What each recogniser heard in a take is stored with its sound."""

from extras.books.speaking.take_folder import TakeFolder

KEY = "a" * 40


def test_each_recogniser_keeps_what_it_heard(tmp_path):
    takes = TakeFolder(tmp_path)
    takes.sound_path(KEY).parent.mkdir()
    takes.store_misheard_words(KEY, "pocketsphinx", 3)
    takes.store_misheard_words(KEY, "whisper", 0)
    assert [takes.misheard_words(KEY, recogniser) for recogniser in ("pocketsphinx", "whisper", "other")] == [
        3,
        0,
        None,
    ]
    takes.store_misheard_words(KEY, "pocketsphinx", 2)
    assert [takes.misheard_words(KEY, recogniser) for recogniser in ("pocketsphinx", "whisper")] == [2, 0]
