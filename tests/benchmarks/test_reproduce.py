"""Where ``make reproduce`` writes."""

from __future__ import annotations

import pytest

from benchmarks import reproduce
from planning import families


@pytest.mark.parametrize("quick", [True, False])
def test_only_a_whole_run_writes_over_the_committed_pages(quick):
    for names in (families.NAMES, families.NAMES[:1]):
        folder = reproduce.target(names, quick, renew=False)
        whole = not quick and names is families.NAMES
        assert folder == (reproduce.COMMITTED if whole else reproduce.SCRATCH)


def test_one_family_is_renewed_only_when_told(tmp_path, monkeypatch):
    class Module:
        @staticmethod
        def reproduce(folder, quick, progress):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "lira.md").write_text("renewed")

    monkeypatch.setattr(reproduce.importlib, "import_module", lambda name: Module)
    monkeypatch.setattr(reproduce, "COMMITTED", tmp_path / "docs")
    monkeypatch.setattr(reproduce, "SCRATCH", tmp_path / "var")
    assert reproduce.main(["lira"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["var"]
    assert reproduce.main(["lira", "--renew"]) == 0
    assert (tmp_path / "docs" / "lira.md").read_text() == "renewed"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--quick", "--renew"], "leave one out"), (["sieve"], "families are sifter")],
)
def test_wrong_usage_is_named(arguments, message, capsys):
    with pytest.raises(SystemExit) as ended:
        reproduce.main(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
