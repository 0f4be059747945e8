/* The switch in the header, a link between a page and the same page in the other language, keeps the reader's place.
   And on a Spanish page, what the site's scripts write is Spanish too: _static/spanish.json has their words. */
(() => {
  "use strict";

  const WORDS = new URL("spanish.json", document.currentScript.src).href;
  const NAMES = ["title", "aria-label", "placeholder", "data-bs-original-title"];
  const HOLE = /\{#?\}/;
  const HOLES = /\{#?\}/g;
  const NUMBER = "([\\d.,]+(?: [A-Za-z]+)?)";
  const FOREIGN = "pre, code, script, style, [lang=en], mjx-container";

  /* ---- the switch: to the place that is read ---------------------------------------------------------------------- */

  function place() {
    const passed = [...document.querySelectorAll("article section[id], article .lab-cell-number[id]")].filter(
      (each) => each.checkVisibility() && each.getBoundingClientRect().top < innerHeight / 3, // neither folded nor veiled
    );
    return scrollY > 200 && passed.length ? `#${passed.at(-1).id}` : location.hash;
  }

  document.addEventListener("click", ({ target }) => {
    const link = target.closest(".lab-language");
    if (link) link.hash = place();
  });

  if (document.documentElement.lang !== "es") return;

  /* ---- the scripts' words ----------------------------------------------------------------------------------------- */

  let exact;
  let patterns; // "code, {}": what stands for {} is taken over, in Spanish if it is known; {#} is a number with its unit

  function spanish(english) {
    if (exact.has(english)) return exact.get(english);
    for (const [pattern, words] of patterns) {
      const [found, ...rest] = pattern.exec(english) ?? [];
      if (found) return words.replace(HOLES, () => ((each) => spanish(each) ?? each.replace(/^(\d+)\.(\d)/, "$1,$2"))(rest.shift()));
    }
  }

  function changeText(text) {
    const english = text.data.trim().replace(/\s+/g, " ");
    const words = /\p{L}{2}/u.test(english) && !text.parentElement?.closest(FOREIGN) && spanish(english);
    if (words) text.data = text.data.replace(text.data.trim(), () => words);
  }

  function changeNames(element) {
    for (const name of NAMES) {
      const words = element.hasAttribute(name) && spanish(element.getAttribute(name));
      if (words) element.setAttribute(name, words);
    }
  }

  function change(node) {
    if (node.nodeType === Node.TEXT_NODE) return changeText(node);
    if (node.nodeType !== Node.ELEMENT_NODE) return;
    const texts = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) changeText(texts.currentNode);
    for (const each of [node, ...node.querySelectorAll(NAMES.map((name) => `[${name}]`).join())]) changeNames(each);
  }

  async function begin() {
    const words = Object.entries(await (await fetch(WORDS)).json());
    exact = new Map(words.filter(([english]) => !HOLE.test(english)));
    const pattern = (english) => english.replace(/[.*+?^$()|[\]\\]/g, "\\$&").replaceAll("{}", "(.+?)").replaceAll("{#}", NUMBER);
    patterns = words
      .filter(([english]) => HOLE.test(english))
      .sort(([one], [other]) => other.length - one.length) // the most words first
      .map(([english, each]) => [new RegExp(`^${pattern(english)}$`), each]);
    change(document.body);
    new MutationObserver((records) => {
      for (const { type, target, addedNodes } of records) {
        if (type === "attributes") changeNames(target);
        else if (type === "characterData") changeText(target);
        else addedNodes.forEach(change);
      }
    }).observe(document.body, { subtree: true, childList: true, characterData: true, attributeFilter: NAMES });
  }

  document.addEventListener("DOMContentLoaded", begin);
})();
