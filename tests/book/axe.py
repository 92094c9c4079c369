"""What axe-core has against a page, by the rules of WCAG 2.1 AA."""

from pathlib import Path

import axe_playwright_python

AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text("utf-8")
# With all unfolded. `preload` would fetch the styles again.
# Code is laid down without the elements that colour it: thousands, which take axe-core minutes in
# all; test_pages_in_a_browser.py checks their colours.
RUN = """async () => {
  for (const folded of document.querySelectorAll('details')) folded.open = true;
  for (const code of document.querySelectorAll('.highlight pre')) {
    code.textContent = code.textContent;
  }
  const found = await axe.run(document, {
    runOnly: {type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']},
    rules: {'label-content-name-mismatch': {enabled: true}},
    resultTypes: ['violations'],
    preload: false,
  });
  return found.violations.flatMap(
    (rule) => rule.nodes.map((node) => `${rule.id}: ${node.target} ${node.html.slice(0, 200)}`));
}"""


def violations(page) -> list[str]:
    """A line for each place. The page is another afterwards: unfolded, its code without colours."""
    page.evaluate(f"{AXE}; null")
    return page.evaluate(RUN)
