"""The pages of docs/ and the README: nothing left to fill in, and every file they link to is there."""

import re

from conftest import HOME

PAGES = [HOME / "README.md", *sorted((HOME / "docs").glob("*.md"))]


def test_nothing_is_left_to_fill_in():
    for page in PAGES:
        assert not re.search(r"@@[A-Z]+@@|TODO|FIXME", page.read_text()), page


def test_links_lead_to_files():
    for page in PAGES:
        # not in code
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.S)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            if not re.match(r"[a-z]+:", link) and not link.startswith("#"):
                assert (page.parent / link.split("#")[0]).exists(), f"{page.name}: {link}"
