"""The web edition in a browser, once it is built: `pytest -m browser autograder/tests/browser/test_web.py`

Wide and narrow, light and dark: nothing runs over the page's edge, what is text can be told from what is behind it,
every picture has a text, and the search finds. With WEB_PICTURES=FOLDER it leaves a picture of each page there, to be
looked at.
"""

import functools
import os
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from conftest import COURSE

SITE = COURSE / "web/_build/html"
PAGES = [
    "index",
    "lessons/00_before_you_start",
    "lessons/01_three_clocks",
    "lessons/05_the_cache",
    "lessons/09_what_xla_made",
    "exercises/05_the_cache/the_cache",
    "guides/why_does_it_retrace",
    "guides/keep_it_fast",
    "reference/index",
    "reference/speedup",
    "autograder/THREATS",
]
WINDOWS = {"wide": (1440, 900), "narrow": (390, 844)}

# Elements that stick out of the window although nothing around them scrolls or cuts them off.
RUNS_OVER = """() => {
  const width = document.documentElement.clientWidth
  const inside = e => { for (let p = e.parentElement; p; p = p.parentElement) {
    const s = getComputedStyle(p)
    if (['auto', 'scroll', 'hidden', 'clip'].includes(s.overflowX)) return true } return false }
  return [...document.querySelectorAll('article *')].filter(e => {
    const r = e.getBoundingClientRect()
    return r.width && r.height && (r.right > width + 1 || r.left < -1) && !inside(e) })
    .map(e => e.outerHTML.slice(0, 120))
}"""

# Texts of the article whose contrast with what is behind them is below 4.5:1, or 3:1 where they are large (WCAG).
PALE = """() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true})
  const rgba = text => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1)
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255] }
  const over = (top, under) => [0, 1, 2].map(i => top[3] * top[i] + (1 - top[3]) * under[i])
  const behind = e => { const layers = []
    for (let p = e; p; p = p.parentElement) { const c = rgba(getComputedStyle(p).backgroundColor)
      if (c[3] > 0) layers.push(c); if (c[3] === 1) break }
    return layers.reverse().reduce((under, c) => over(c, under), [255, 255, 255]) }
  const light = c => { const [r, g, b] = c.map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b }
  const found = []
  const walker = document.createTreeWalker(document.querySelector('article'), NodeFilter.SHOW_TEXT)
  for (let node; node = walker.nextNode();) {
    const e = node.parentElement
    if (!node.data.trim() || e.closest('svg, script, style, .headerlink') || !e.checkVisibility()) continue
    const style = getComputedStyle(e), ground = behind(e)
    const [a, b] = [light(over(rgba(style.color), ground)), light(ground)]
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700)
    if (ratio < (large ? 3 : 4.5)) found.push(`${ratio.toFixed(1)}: ${node.data.trim().slice(0, 40)} (${e.className})`)
  }
  return [...new Set(found)]
}"""


@pytest.fixture(scope="module")
def address():
    """Where the site is served: its search needs a server."""
    if not (SITE / "index.html").is_file():
        pytest.fail("build the pages first: sphinx-build -M html web web/_build -W --keep-going")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(params=[(window, theme) for window in WINDOWS for theme in ("light", "dark")], ids=" ".join)
def open_page(request, browser, address):
    """A function that opens a page by its name, in each window and each theme."""
    (width, height), theme = WINDOWS[request.param[0]], request.param[1]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
    page = context.new_page()
    # Formulas are drawn by a script from elsewhere; no page waits for it here.
    page.route("**/*", lambda route: route.continue_() if route.request.url.startswith(address) else route.abort())

    def open_page(name):
        page.goto(f"{address}/{name}.html", wait_until="load")
        assert page.locator("html").get_attribute("data-theme") == theme
        return page

    open_page.told = "-".join(request.param)
    yield open_page
    context.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_its_window_and_can_be_read(open_page, name):
    page = open_page(name)
    if folder := os.environ.get("WEB_PICTURES"):
        page.screenshot(path=f"{folder}/{name.replace('/', '_')}-{open_page.told}.png", full_page=True)
    assert page.locator("article h1").count() == 1
    assert page.evaluate(RUNS_OVER) == []
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth + 1")
    assert page.evaluate(PALE) == []
    assert page.evaluate("[...document.querySelectorAll('article img')].filter(i => !i.alt).map(i => i.src)") == []


def test_the_search_finds_a_page(open_page):
    page = open_page("index")
    page.goto(page.url.replace("index.html", "search.html?q=donation"))
    found = page.locator("#search-results li a").first
    found.wait_for()
    assert page.locator("#search-results li a[href*='11_memory']").count()


def test_a_folded_cell_opens(open_page):
    page = open_page("lessons/01_three_clocks")
    cell = page.locator("details.hide", has_text="Picture").first
    assert not cell.locator("pre").first.is_visible()
    cell.locator("summary").click()
    assert cell.locator("pre").first.is_visible()
