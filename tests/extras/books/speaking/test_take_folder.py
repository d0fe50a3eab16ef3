"""What each recogniser heard in a take is stored with its sound."""

from extras.books.speaking.take_folder import TakeFolder

KEY = "a" * 40


def test_each_recogniser_keeps_what_it_heard(tmp_path):
    takes = TakeFolder(tmp_path)
    takes.sound(KEY).parent.mkdir()
    takes.keep_heard(KEY, "pocketsphinx", 3)
    takes.keep_heard(KEY, "whisper", 0)
    assert [takes.heard(KEY, recogniser) for recogniser in ("pocketsphinx", "whisper", "other")] == [
        3,
        0,
        None,
    ]
    takes.keep_heard(KEY, "pocketsphinx", 2)
    assert [takes.heard(KEY, recogniser) for recogniser in ("pocketsphinx", "whisper")] == [2, 0]
