"""The pages of docs/ that come from the code are what the code gives now."""

import pytest

from tools import gen_docs


@pytest.mark.parametrize("name", gen_docs.PAGES)
def test_pages_are_what_the_code_gives(name):
    text = (gen_docs.DOCS / name).read_text()
    assert text == gen_docs.PAGES[name](), "run `make docs`"


def test_a_page_that_was_edited_or_is_missing_is_stale(monkeypatch, tmp_path):
    monkeypatch.setattr(gen_docs, "DOCS", tmp_path)
    monkeypatch.setattr(gen_docs, "PAGES", {"a.md": lambda: "text", "b.md": lambda: "b"})
    (tmp_path / "a.md").write_text("text")
    assert gen_docs.stale() == ["b.md"]
    monkeypatch.setattr("sys.argv", ["gen_docs"])
    gen_docs.main()
    assert gen_docs.stale() == []
    (tmp_path / "a.md").write_text("text, edited")
    assert gen_docs.stale() == ["a.md"]
    monkeypatch.setattr("sys.argv", ["gen_docs", "--check"])
    with pytest.raises(SystemExit, match=r"make docs.*a\.md"):
        gen_docs.main()
