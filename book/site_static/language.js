/* The page in English or in Spanish: its opening, and the site's own words. The switch in the header is a link to the
   Spanish opening, which works without this script; with it, the whole site follows, and remembers.
   Loaded before the page is drawn, so that a page never shows one language and then the other. */
(() => {
  "use strict";

  const KEY = "lab-language";
  const root = document.documentElement;
  const WORDS = new URL("spanish.json", document.currentScript.src).href;
  const OWN = [
    ".skip-link, .bd-sidebar-primary, .bd-header-article, .prev-next-area, .bd-footer",
    "#jb-print-docs-body, article h1, article h2, article h3, article summary, .lab-cell-number, .lab-report, .lab-more, .lab-reading, .lab-ask, .lab-veil, .lab-eyebrow",
    ".lab-card, .lab-reply button, .lab-payoff > li > a, .lab-shown > .lab-note",
  ].join();
  const NAMES = ["title", "aria-label", "data-bs-original-title", "placeholder"];

  const remembered = () => localStorage.getItem(KEY); // in a browser that keeps nothing each page begins in English
  const remember = (language) => localStorage.setItem(KEY, language);
  const isSpanish = () => root.dataset.language === "es";

  if (remembered() === "es") root.dataset.language = "es";

  /* ---- words ------------------------------------------------------------------------------------------------------ */

  let words;

  const load = () => (words ??= fetch(WORDS).then((answer) => answer.json()).then(Object.entries));

  /* "Code: the table below": each pattern with {} takes over the rest, in Spanish where it is known. */
  function inSpanish(text, known) {
    const exact = known.find(([english]) => english === text);
    if (exact) return exact[1];
    for (const [english, spanish] of known) {
      const [before, after] = english.split("{}");
      if (after === undefined || !text.startsWith(before) || !text.endsWith(after)) continue;
      const rest = text.slice(before.length, text.length - after.length);
      if (rest) return spanish.replace("{}", inSpanish(rest, known) ?? rest);
    }
    const cut = text.lastIndexOf(", "); // "item(), the table below"
    const last = cut > 0 ? inSpanish(text.slice(cut + 2), known) : null;
    return last && text.slice(0, cut + 2) + last;
  }

  const changed = []; // how to get the English back

  function changeText(text, known) {
    const english = text.data;
    const spanish = inSpanish(english.trim().replace(/\s+/g, " "), known);
    if (spanish === null) return;
    const holder = text.parentElement;
    text.data = english.replace(english.trim(), () => spanish);
    const before = holder.getAttribute("lang");
    holder.lang = "es";
    changed.push(() => {
      text.data = english;
      before === null ? holder.removeAttribute("lang") : (holder.lang = before);
    });
  }

  function changeNames(element, known) {
    for (const name of NAMES) {
      const english = element.getAttribute(name);
      const spanish = english && inSpanish(english, known);
      if (!spanish) continue;
      element.setAttribute(name, spanish);
      changed.push(() => element.setAttribute(name, english));
    }
  }

  async function speakSpanish() {
    const known = await load();
    if (!isSpanish() || changed.length) return;
    for (const part of document.querySelectorAll(OWN)) {
      const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
      while (walker.nextNode())
        if (walker.currentNode.data.trim() && !walker.currentNode.parentElement.closest(".lab-language, script"))
          changeText(walker.currentNode, known);
      for (const element of [part, ...part.querySelectorAll(NAMES.map((name) => `[${name}]`).join())])
        changeNames(element, known);
    }
    const english = document.title;
    const [, number = "", title] = /^(\d\d )?(.*?)(?: — .*)?$/.exec(english);
    const heading = inSpanish(title, known);
    if (heading) {
      document.title = number + heading;
      changed.push(() => (document.title = english));
    }
  }

  /* ---- the switch ------------------------------------------------------------------------------------------------- */

  function show() {
    const link = document.querySelector(".lab-language");
    link.textContent = isSpanish() ? "English" : "Español";
    link.lang = isSpanish() ? "en" : "es";
    link.hreflang = link.lang;
    const opening = document.querySelector("details.lab-spanish");
    if (opening) opening.open = isSpanish();
    if (isSpanish()) speakSpanish();
    else while (changed.length) changed.pop()();
  }

  document.addEventListener("DOMContentLoaded", () => {
    const link = document.querySelector(".lab-language");
    if (!link) return;
    link.addEventListener("click", (event) => {
      event.preventDefault();
      if (isSpanish()) delete root.dataset.language;
      else root.dataset.language = "es";
      remember(isSpanish() ? "es" : "en");
      show();
    });
    if (isSpanish()) show();
  });
})();
