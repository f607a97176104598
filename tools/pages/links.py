"""Looks for dead links: each place that a page of a built site names must be there, its anchors too, and opening a page fetches nothing from elsewhere."""
import html.parser
import urllib.parse


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.places, self.fetched, self.anchors = [], [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        for key, value in attributes:
            if key == "id" or (key == "name" and tag == "a"):
                self.anchors.add(value)
            if key in ("href", "src") and value:
                self.places.append(value)
                if tag != "a":
                    self.fetched.append(value)


def dead(folder):
    """(page, place) of each link to a place of the site that is not there, and what is fetched from elsewhere at opening."""
    pages = {path: Page(path) for path in folder.rglob("*.html")}
    found = []
    for path, page in pages.items():
        found += [(path.relative_to(folder), place) for place in page.fetched if urllib.parse.urlsplit(place).netloc]
        for place in page.places:
            parts = urllib.parse.urlsplit(place)
            if parts.scheme or parts.netloc:
                continue
            target = path if not parts.path else (path.parent / urllib.parse.unquote(parts.path)).resolve()
            if parts.path.startswith("/"):  # of the page for errors, which stands anywhere
                target = folder / parts.path.lstrip("/")
            if target.is_dir():
                target = target / "index.html"
            anchor = urllib.parse.unquote(parts.fragment)
            if not target.exists() or (anchor and target in pages and anchor not in pages[target].anchors and not anchor.startswith("__")):
                found.append((path.relative_to(folder), place))
    return found
