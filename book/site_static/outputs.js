/* What cells show, fitted to the page. A long table shows its first and last rows, and the rest on demand; on a
   phone, a table that is wider than the screen becomes a column of cards; no number is parted from its unit. Without
   this script all is whole. */
(() => {
  "use strict";

  const MOST_ROWS = 7;
  const FIRST = 4;
  const LAST = 2;
  const LONG_NAME = /[\w./]{16,}/;
  const UNITS = "%|×|bytes?|[kMGT]i?B(?:\\/s)?|[nµm]?s|min|GHz|TFLOP\\/s|[MB]";
  const PARTED = new RegExp(`\\d[\\d.,]*e[+-]\\d+|\\d[\\d.,]* (?:${UNITS})(?![\\w%])|\\d{4}-\\d\\d-\\d\\d|\\[\\d+(?:, \\d+)+\\]`, "g");

  /* ---- numbers: a line ends neither before a unit nor within an exponent, a date, a shape ------------- */

  function texts(place) {
    const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) found.push(walker.currentNode);
    return found.filter((text) => !text.parentElement.closest("pre, script, svg, .lab-number"));
  }

  function keepTogether(place) {
    for (const text of texts(place)) {
      if (text.parentElement.closest("code")) continue;
      for (const found of [...text.data.matchAll(PARTED)].reverse()) {
        const number = document.createRange();
        number.setStart(text, found.index);
        number.setEnd(text, found.index + found[0].length);
        const whole = document.createElement("span");
        whole.className = "lab-number";
        number.surroundContents(whole);
      }
    }
  }

  /* A long name in a table may end a line after one of its parts: _scaled_|dot_|product. */
  function partNames(table) {
    for (const text of texts(table)) {
      if (!LONG_NAME.test(text.data) || text.parentElement.querySelector("wbr")) continue;
      const parts = text.data.split(/(?<=\w[_./])(?=\w)/);
      text.replaceWith(...parts.flatMap((part, at) => (at ? [document.createElement("wbr"), part] : [part])));
    }
  }

  /* ---- long tables ------------------------------------------------------------------------------------------------- */

  function foldRows(table) {
    const rows = [...table.tBodies].flatMap((body) => [...body.rows]);
    if (rows.length <= MOST_ROWS) return;
    const folded = rows.slice(FIRST, -LAST);
    const line = document.createElement("tr");
    const cell = line.insertCell();
    cell.colSpan = rows[0].cells.length;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "lab-more";
    button.textContent = `${folded.length} more rows`;
    button.addEventListener("click", () => {
      for (const row of folded) row.classList.remove("lab-folded");
      line.remove();
      fit(table);
      folded[0].cells[0].tabIndex = -1;
      folded[0].cells[0].focus({ preventScroll: true }); // the button that had the focus is gone
    });
    cell.append(button);
    for (const row of folded) row.classList.add("lab-folded");
    folded[0].before(line);
  }

  /* ---- wide tables ------------------------------------------------------------------------------------------------ */

  const phone = matchMedia("(max-width: 600px)");

  function fit(table) {
    table.classList.remove("lab-cards");
    if (phone.matches && table.scrollWidth > table.parentElement.clientWidth + 1) table.classList.add("lab-cards");
  }

  function label(table) {
    const names = [...(table.tHead?.rows[0]?.cells ?? [])].map((cell) => cell.textContent.replace(/\s+/g, " ").trim());
    for (const body of table.tBodies)
      for (const row of body.rows)
        if (row.cells.length === names.length)
          names.forEach((name, at) => name && row.cells[at].setAttribute("data-label", name));
  }

  /* ---- the page --------------------------------------------------------------------------------------------------- */

  const tables = (place) => [...place.querySelectorAll("table")];

  function prepare(place) {
    keepTogether(place);
    tables(place).forEach(label);
    tables(place).forEach(partNames);
    tables(place).forEach(fit);
  }

  const article = document.querySelector("article");
  if (!article) return;
  for (const table of article.querySelectorAll(".cell_output table"))
    if (!table.closest("details, .lab-explorer")) foldRows(table);
  prepare(article);
  addEventListener("load", () => tables(article).forEach(fit)); // the fonts are there
  phone.addEventListener("change", () => tables(article).forEach(fit));
  article.addEventListener("toggle", (event) => tables(event.target).forEach(fit), true);
  const changed = new MutationObserver((changes) => new Set(changes.map(({ target }) => target)).forEach(prepare));
  for (const panel of article.querySelectorAll(".lab-panel")) changed.observe(panel, { childList: true });
})();
