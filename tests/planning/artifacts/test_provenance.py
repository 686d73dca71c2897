"""The code digest: what can change a family's plans changes it, and nothing else does."""

from __future__ import annotations

import importlib.resources
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from planning import families
from planning.artifacts.provenance import code_digest, covered, digest_of, sources
from spark_apps import STATISTICS_APPS


@pytest.fixture(scope="module")
def modules() -> dict[str, bytes]:
    return sources()


def touched(modules: Mapping[str, bytes], package: str) -> dict[str, bytes]:
    """Return the modules, with one more line in each that belongs to a module or package."""
    inside = [n for n in modules if n == package or n.startswith(f"{package}.")]
    assert inside, f"{package} is not among the modules"
    return {**modules, **{name: modules[name] + b"\n# changed\n" for name in inside}}


@pytest.mark.parametrize("name", families.NAMES)
def test_what_can_change_the_plans_changes_the_digest(
    name: str, modules: dict[str, bytes]
) -> None:
    before = digest_of(name, modules)
    rooms = ("parameters", "model", "statistics", "planner", "path", "plan")
    shared = ("planning.sampling", "planning.samples", "planning.streams", "planning.stages.local")
    apps = (f"spark_apps.{STATISTICS_APPS[name]}", "spark_apps.validate", "spark_apps.reading")
    for part in (*(f"planning.{name}.{room}" for room in rooms), *shared, *apps, "expectations"):
        assert digest_of(name, touched(modules, part)) != before, part


@pytest.mark.parametrize("name", families.NAMES)
def test_nothing_else_does(name: str, modules: dict[str, bytes]) -> None:
    before = digest_of(name, modules)
    shown = ("planning.report", "planning.pictures", "planning.trial", "planning.examples")
    around = ("planning.commands", "planning.runtime", "planning.artifacts")
    others = [other for other in families.NAMES if other != name]
    for part in (
        f"planning.{name}.figures", f"planning.{name}.demo", f"planning.{name}.simulate",
        *shown, *around,
        *(f"planning.{other}" for other in others),
        *(f"spark_apps.{STATISTICS_APPS[other]}" for other in others),
    ):  # fmt: skip
        assert digest_of(name, touched(modules, part)) == before, part


def test_a_module_that_a_planner_imports_counts_wherever_it_is(
    modules: dict[str, bytes],
) -> None:
    planner = modules["planning.sifter.planner"] + b"\nfrom planning.report import write_report\n"
    with_import = {**modules, "planning.sifter.planner": planner}
    assert "planning.report" in covered("sifter", with_import) - covered("sifter", modules)


@pytest.mark.parametrize("name", families.NAMES)
def test_no_module_of_a_family_hides_what_it_imports(name: str, modules: dict[str, bytes]) -> None:
    """An import by name would be missed; only the package itself does that, for its nouns."""
    room = f"planning.{name}"
    hidden = (b"importlib", b"__import__", b"planning.lazy", b"from planning import lazy")
    inside = [n for n in modules if n.startswith(f"{room}.")]
    assert [n for n in inside if any(word in modules[n] for word in hidden)] == []


def test_the_digest_is_the_same_wherever_the_packages_are(tmp_path: Path) -> None:
    """As installed: no checkout, no working directory, line endings of another system."""
    modules = sources()
    root = Path(str(importlib.resources.files("planning"))).parent
    for name, source in modules.items():
        place = Path(*name.split("."))
        is_package = (root / place).is_dir()
        target = tmp_path / (place / "__init__.py" if is_package else place.with_suffix(".py"))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.replace(b"\n", b"\r\n"))
    script = "from planning.artifacts.provenance import code_digest; print(code_digest('lira'))"
    moved = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{script}"],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert moved.stdout.strip() == code_digest("lira")


def test_a_machine_without_spark_apps_still_has_a_digest(
    monkeypatch: pytest.MonkeyPatch, modules: dict[str, bytes]
) -> None:
    from planning.artifacts import provenance

    monkeypatch.setattr(provenance, "PACKAGES", ("planning", "absent_package"))
    assert all(name.startswith("planning") for name in provenance.sources())
    assert digest_of("fit", provenance.sources()) != digest_of("fit", modules)
