/* A field that searches the cards of a page: those that have all of the words stay, and so do the headings above them. */
(() => {
  "use strict";

  const place = document.querySelector(".lab-search-cards");
  if (!place) return;
  const cards = [...document.querySelectorAll("details.lab-break")];
  const texts = cards.map((card) => card.textContent.toLowerCase());
  const sections = [...new Set(cards.map((card) => card.closest("section")))];

  const label = document.createElement("label");
  label.textContent = "Search the atlas ";
  const field = document.createElement("input");
  field.type = "search";
  field.placeholder = "item, print, GB0170 …";
  label.append(field);
  const told = document.createElement("span");
  told.setAttribute("role", "status");
  place.append(label, " ", told);

  function search() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    cards.forEach((card, at) => {
      card.hidden = !words.every((word) => texts[at].includes(word));
      found += !card.hidden;
    });
    for (const section of sections) section.hidden = !section.querySelector("details.lab-break:not([hidden])");
    told.textContent = words.length ? `${found} of ${cards.length}` : "";
  }

  field.addEventListener("input", search);
})();
