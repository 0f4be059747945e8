/* Controls over the cards of a page, in the place that asks for them (.lab-search-cards): a field that searches, and,
   where its data-kinds names some, a choice of one kind and of an order. Without a script every card stands there. */
(() => {
  "use strict";

  const place = document.querySelector(".lab-search-cards");
  if (!place) return;
  const cards = [...document.querySelectorAll(place.dataset.cards)];
  const texts = cards.map((card) => card.textContent.toLowerCase());
  const homes = cards.map((card) => card.parentElement);
  const sections = [...new Set(cards.map((card) => card.closest("section")))];
  const kinds = (place.dataset.kinds || "").split(" ").filter(Boolean);

  function labelled(text, control) {
    const label = document.createElement("label");
    label.append(`${text} `, control);
    control.addEventListener("input", show);
    place.append(label, " ");
    return control;
  }

  function choice(text, options) {
    const select = document.createElement("select");
    for (const [value, said] of options) select.append(new Option(said, value));
    return labelled(text, select);
  }

  const field = document.createElement("input");
  field.type = "search";
  field.placeholder = place.dataset.like;
  labelled(place.dataset.ask, field);
  const is = (card, kind) => card.dataset.kind.split(" ").includes(kind); // a claim in parts can be of both kinds
  const count = (kind) => cards.filter((card) => is(card, kind)).length;
  const kind = kinds.length && choice("Show", [["", "all"], ...kinds.map((each) => [each, `${each.replaceAll("_", " ")} (${count(each)})`])]);
  const order = kinds.includes("refuted") && choice("Order", [["", "by chapter"], ["number", "by number"], ["kind", "refuted first"]]);
  const told = document.createElement("span");
  told.setAttribute("role", "status");
  place.append(told);
  const flat = document.createElement("div");
  place.after(flat);

  function sorted() {
    const by = { number: (card) => card.dataset.number, kind: (card) => `${Number(!is(card, "refuted"))}` };
    const key = (card) => by[order.value](card) + card.dataset.number;
    return [...cards].sort((one, other) => (key(one) < key(other) ? -1 : 1));
  }

  function show() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    cards.forEach((card, at) => {
      card.hidden = !words.every((word) => texts[at].includes(word)) || (kind && kind.value && !is(card, kind.value));
      found += !card.hidden;
    });
    if (order && order.value) flat.append(...sorted());
    else if (order) cards.forEach((card, at) => homes[at].append(card));
    for (const section of sections) section.hidden = !section.querySelector(`${place.dataset.cards}:not([hidden])`);
    told.textContent = words.length || (kind && kind.value) ? `${found} of ${cards.length}` : "";
  }
})();
