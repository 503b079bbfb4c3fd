"""JupyterLab as a person uses it: cells are found by what stands in them, and waited for by what they show."""

import re

from playwright.sync_api import Locator, Page, expect

LONG = 120_000  # milliseconds: a kernel starts, JAX is imported, a program is compiled


def cell(page: Page, text: str) -> Locator:
    """The code cell of the notebook in view in which this text stands."""
    found = page.locator(".jp-NotebookPanel:visible .jp-CodeCell").filter(
        has=page.locator(".cm-content", has_text=re.compile(re.escape(text)))
    )
    expect(found.first).to_be_attached()
    return found.first


def write(page: Page, one: Locator, text: str) -> None:
    """Put this text into a cell, in the place of what is there."""
    one.scroll_into_view_if_needed()
    one.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def run(page: Page, one: Locator) -> None:
    """Run a cell, and wait until it has ended."""
    one.scroll_into_view_if_needed()
    prompt = one.locator(".jp-InputPrompt").first
    before = prompt.inner_text()
    one.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    expect(prompt).not_to_have_text(before, timeout=LONG)
    expect(prompt).to_have_text(re.compile(r"\[\d+\]"), timeout=LONG)


def panel(one: Locator) -> Locator:
    """What the check of this cell shows."""
    return one.locator('.jp-OutputArea [role="status"]').first


def menu(page: Page, *names: str) -> None:
    """Choose from the menus at the top."""
    page.locator(".lm-MenuBar-itemLabel", has_text=re.compile(f"^{names[0]}$")).click()
    for name in names[1:]:
        item = page.locator(
            ".lm-Menu-item:visible", has=page.locator(".lm-Menu-itemLabel", has_text=re.compile(f"^{name}"))
        )
        item.first.click()


# For each text in view below the chosen elements: the text, and its contrast to what is behind it.
_CONTRASTS = """
selector => {
  const channels = colour => colour.match(/[\\d.]+/g).map(Number);
  const linear = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const over = (top, below) => {
    const a = top.length > 3 ? top[3] : 1;
    return [0, 1, 2].map(i => top[i] * a + below[i] * (1 - a));
  };
  const behind = element => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) {
      const svg = e.tagName === "svg" && e.querySelector(":scope > rect");
      if (svg) layers.push(channels(getComputedStyle(svg).fill));
      layers.push(channels(getComputedStyle(e).backgroundColor));
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const found = [];
  for (const root of document.querySelectorAll(selector)) {
    const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const element = texts.currentNode.parentElement, said = texts.currentNode.textContent.trim();
      if (!said || !element.getClientRects().length || element.closest("title, desc, [aria-hidden=true]")) continue;
      const style = getComputedStyle(element), back = behind(element);
      const ink = element.closest("svg") && element.tagName !== "svg" ? style.fill : style.color;
      const [dark, light] = [luminance(over(channels(ink), back)), luminance(back)].sort((a, b) => a - b);
      found.push([said, (light + 0.05) / (dark + 0.05)]);
    }
  }
  return found;
}
"""


def pale(page: Page, selector: str, least: float = 4.5) -> list[tuple[str, float]]:
    """The texts below these elements whose contrast is less than this. Fails where there is no text at all."""
    found = page.evaluate(_CONTRASTS, selector)
    assert found, f"no text is in view in {selector}"
    return [(text, round(contrast, 2)) for text, contrast in found if contrast < least]
