"""What a page of Data Docs looks like: at the top table, pass and time; nothing comes from the network."""

from __future__ import annotations

from typing import Any

from great_expectations.render import (
    RenderedContent,
    RenderedHeaderContent,
    RenderedStringTemplateContent,
)
from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
from great_expectations.render.view import DefaultJinjaPageView
from hardpack_expectations.index import CSP
from jinja2.bccache import Bucket, BytecodeCache

HEADINGS = ("Pass", "Expectations", "Snapshot", "Compared with", "Partitions", "Time of the pass", "Checked")
"""Headings at the top of a page, in the order in which they are shown; the result store sorts names."""
OWN = "own_expectations"
"""Name of the suite that a user's own expectations make."""
SAID = "Every guarantee holds", "A GUARANTEE IS BROKEN"
SAID_OF_OWN = "Every expectation of your own holds", "AN EXPECTATION OF YOUR OWN FAILED"
ABOUT = "about"
"""Key in a result's metadata of what stands at the top of its page, by heading."""


class ResultsPage(ValidationResultsPageRenderer):
    """Great Expectations' page of a validation, with the outcome in the header instead of the data asset's name.

    Great Expectations never knows that name here.
    """

    def render(self, validation_results: Any, suite_parameters: Any = None) -> Any:
        """Returns the page's parts, with what stands at its top in place of the batch, which is not known here."""
        page = super().render(validation_results, suite_parameters)
        checked = self._parse_run_values(validation_results)[1]
        page.batch_kwargs = validation_results.meta.get(ABOUT, {}) | {"Checked": f"{checked[:19].replace('T', ' ')}Z"}
        return page

    @classmethod
    def _render_validation_header(cls, validation_results: Any) -> RenderedHeaderContent:
        held = validation_results.success
        own = validation_results.suite_name == OWN
        good, bad = SAID_OF_OWN if own else SAID
        text = {"template": good if held else bad, "tag": "h2"}
        header = RenderedStringTemplateContent(content_block_type="string_template", string_template=text)
        classes = ["col-12", "p-0", "held" if held else "broken"]
        return RenderedHeaderContent(content_block_type="header", header=header, styling={"classes": classes})


class _Compiled(BytecodeCache):
    """A cache of compiled templates that lives as long as the process."""

    def __init__(self) -> None:
        self._by_key: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Gives a bucket the compiled template, where the cache has it."""
        if code := self._by_key.get(bucket.key):
            bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keeps the compiled template of a bucket."""
        self._by_key[bucket.key] = bucket.bytecode_to_string()


_COMPILED = _Compiled()


class PageView(DefaultJinjaPageView):
    """hardpack's own frame around Great Expectations' sections: nothing from the network, no script."""

    _template = "hardpack_page.html"

    # Great Expectations gives these two arguments only to a view that has parameters of these names
    def __init__(self, custom_styles_directory: str | None = None, custom_views_directory: str | None = None) -> None:
        """Makes a view whose templates are compiled once in a process, not for each page."""
        super().__init__(custom_styles_directory, custom_views_directory)
        self.env.bytecode_cache = _COMPILED

    def render(self, document: RenderedContent, template: str | None = None, **kwargs: Any) -> str:
        """Returns the page as HTML."""
        given = getattr(document, "batch_kwargs", None) or {}
        about = {name: given[name] for name in ("Table", *HEADINGS) if name in given}
        return str(super().render(document, template, csp=CSP, about=about, **kwargs))
