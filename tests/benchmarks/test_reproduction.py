"""Pages of reproductions and their summary."""

from __future__ import annotations

import csv

from benchmarks.reproduction import Claim, Page, claims_of, write_summary
from planning import families


def make_page(folder, family="sifter"):
    page = Page(folder, family, "A paper, reproduced", "Made by a test.")
    page.section("Figure 1", "Two curves.")
    page.curves("figure-1", [0.5, 1.0], {"ours": [1.0, 2.0], "theirs": [1 / 3, 3.0]}, xlabel="z")
    page.claim(Claim("Figure 1", "ours | theirs", "2 | 3", True, "never"))
    page.claim(Claim("Table 1", "4", "5", False, "the paper rounds"))
    return page.write()


def test_the_claims_come_first_and_are_found_again(tmp_path):
    page = make_page(tmp_path)
    assert page.read_text(encoding="utf-8").index("paper states") < page.read_text().index("## Fig")
    assert claims_of(page) == [
        ["Figure 1", "ours / theirs", "2 / 3", "reproduced"],
        ["Table 1", "4", "5", "differs: the paper rounds"],
    ]


def test_tables_are_on_the_page_and_beside_it(tmp_path):
    page = make_page(tmp_path)
    assert "| 0.5 | 1 | 0.3333 |" in page.read_text(encoding="utf-8")
    with (tmp_path / "sifter-figure-1.csv").open(encoding="utf-8") as file:
        assert list(csv.reader(file)) == [
            ["z", "ours", "theirs"], ["0.5", "1", "0.3333"], ["1", "2", "3"],
        ]  # fmt: skip


def test_the_same_page_has_the_same_bytes(tmp_path):
    for folder in ("a", "b"):
        make_page(tmp_path / folder)
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name


def test_the_summary_counts_what_every_family_reproduced(tmp_path):
    for family in families.NAMES[:2]:
        make_page(tmp_path, family)
    text = write_summary(tmp_path).read_text(encoding="utf-8")
    assert "| [sifter](sifter.md) | 2 | 1 |" in text
    assert "| [fit](fit.md) | 0 | 0 |" in text
    assert "| lira | Table 1 | 4 | 5 | differs: the paper rounds |" in text
