/* Worked problems: a field for the reader's number between the statement and its solution. A number that is right opens
   the solution; of another the page says how far off it is, and not what is right. What was checked is kept in this
   browser alone. Without scripts the solution is there, to open. */
(() => {
  "use strict";

  const { element } = window.lab;
  const NEAR = 0.05;
  const SPANISH = document.documentElement.lang === "es";
  const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;
  const GROUPED = /^[+-]?\d{1,3}(?:,\d{3})+(?!\d)/;

  /* "3.2", "1,240", "2e9", on a Spanish page "3,2" and "1.240,5" as well, with the unit or without it; or NaN. */
  function read(typed, unit) {
    let bare = typed.replace(/\s/g, "").replaceAll("\u2212", "-");
    const end = unit.replace(/\s/g, "");
    if (bare.endsWith(end)) bare = bare.slice(0, bare.length - end.length);
    if (SPANISH) bare = bare.includes(",") || bare.split(".").length > 2 ? bare.replaceAll(".", "").replace(",", ".") : bare;
    else if (GROUPED.test(bare)) bare = bare.replaceAll(",", "");
    return NUMBER.test(bare) ? Number(bare) : NaN;
  }

  function judged(said, [answer, rounding]) {
    if (Number.isNaN(said)) return "Write a number, such as 1.5 or 2e9.";
    if (Math.abs(said - answer) <= Math.max(rounding, NEAR * answer)) return "Right: the solution is open below.";
    if (said <= 0) return "Too small.";
    const factor = Math.max(said / answer, answer / said);
    const digits = factor.toLocaleString(SPANISH ? "es" : "en", { maximumSignificantDigits: 2, useGrouping: false });
    return `Too ${said > answer ? "large" : "small"}, by a factor of about ${digits}.`;
  }

  function prepare(place, at) {
    const problem = place.closest(".lab-problem");
    const solution = problem.querySelector(".lab-solution");
    const unit = solution.querySelector("strong").textContent.replace(/^[\d.,\s]+/, "");
    const kept = `lab-problem:${location.pathname.split("/").pop()}:${at}`;
    const field = element("input", { type: "text", inputmode: "decimal", autocomplete: "off", size: 9 });
    field.value = localStorage.getItem(kept) ?? "";
    const said = element("p", { class: "lab-checked", role: "status" });
    const label = element("label", {}, element("span", {}, "Your answer"), field, element("span", {}, unit));
    const form = element("form", {}, label, element("button", {}, "Check"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const verdict = judged(read(field.value, unit), JSON.parse(place.dataset.answer));
      localStorage.setItem(kept, field.value);
      said.textContent = verdict;
      if (verdict.startsWith("Right")) solution.open = true;
    });
    place.append(form, said);
  }

  document.querySelectorAll(".lab-try").forEach(prepare);
})();
