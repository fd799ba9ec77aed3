"""What all verbs share: where they print, and the catalog that they open."""

from __future__ import annotations

from rich.console import Console

from hardpack.api import Hardpack
from hardpack.cli.render import terminal

out = terminal()
err = Console(stderr=True)


class Shared:
    """Options that stand before the verb."""

    catalog = "hardpack"


def connect() -> Hardpack:
    """Opens the catalog that the options name.

    Raises:
        BadInput: pyiceberg's configuration does not name it, or it is wrong.
        Unavailable: it does not answer.
    """
    hp = Hardpack.connect(Shared.catalog)
    hp.short_life = True
    return hp
