"""The page of the reproduction: the shared one, with the joins' introduction."""

from __future__ import annotations

from pathlib import Path

from benchmarks.reproduction import Claim, Page

INTRODUCTION = """\
Made by `{command}`. Output comes from the deterministic cost model: a processor that makes 750,000
comparisons per second unless said otherwise, input buffers of one second, plans from other random
tuples than they are tried on."""


class JoinsPage(Page):
    """The page, and whether it is made from few points."""

    def __init__(self, folder: Path, quick: bool) -> None:
        command = "make reproduce FAMILY=joins" + (" QUICK=1" if quick else "")
        introduction = INTRODUCTION.format(command=command)
        super().__init__(folder, "joins", "Stream-join shedding, reproduced", introduction)
        self.quick = quick

    def states(self, figure: str, stated: str, ours: str, differs: str = "") -> None:
        """Set what the paper's text says about a figure next to what was found here.

        ``differs`` says why, where the two do not agree.
        """
        self.claim(Claim(f"Figure {figure}", stated, ours, not differs, differs))
