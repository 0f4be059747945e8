/* Predictions: a question, the reader's answer, and then what was found, in the page itself: all that the page has up to
   the next heading or prediction (the extension's "flow" puts it into one box) stays hidden until the reader has said what
   it will be, or wants to see it. What was said is kept in this browser alone, for the pages that sum it up. Without
   scripts everything is in sight. */
(() => {
  "use strict";

  const KEY = "lab-predictions";
  const ALL = `lab-answers:${location.pathname.split("/").pop()}`;
  const STEPS = 200;

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  /* ---- what was said ---------------------------------------------------------------------------------------------- */

  const TEXTS = ["question", "text", "found", "page", "title"];
  const isNumber = (log) => (one) => Number.isFinite(one) && !(log && one <= 0); // a log scale begins above 0
  const isEntry = (each) =>
    TEXTS.every((name) => typeof each?.[name] === "string") &&
    ["log", "chosen"].every((name) => typeof each[name] === "boolean") &&
    /^\/(?!\/)/.test(each.page) && // a path on this host
    [each.said, each.measured].every(each.chosen ? (one) => typeof one === "string" : isNumber(each.log));

  /* By its key, each prediction that is whole; what is kept there may also be damaged, or not ours. */
  function known() {
    try {
      return Object.fromEntries(Object.entries(JSON.parse(localStorage.getItem(KEY)) ?? {}).filter(([, each]) => isEntry(each)));
    } catch {
      return {};
    }
  }

  const keep = (all) => localStorage.setItem(KEY, JSON.stringify(all));

  const page = location.pathname.split("/").pop();
  const keyOf = (asked) => `${page}#${asked.question}`;

  /* ---- sentences -------------------------------------------------------------------------------------------------- */

  const SPANISH = document.documentElement.lang === "es";
  function digits(value, most = 3) {
    const written = value.toLocaleString(SPANISH ? "es" : "en", { maximumSignificantDigits: most });
    return SPANISH ? written.replaceAll(".", "\u202f") : written;
  }
  const text = (asked, said) => (asked.choices ? said : `${digits(said)}${asked.unit}`);

  /* How many times too much (2) or too little (0.5); 1 is as good as right. */
  function factor(asked, said) {
    const times = said / asked.measured;
    return times > 1 / 1.05 && times < 1.05 ? 1 : times;
  }

  function compared(asked, said) {
    if (asked.choices)
      return `You said ${said}: ${said === asked.measured ? "just so" : `it is ${asked.measured}`}.`;
    const both = `You said ${text(asked, said)}; the answer is ${asked.text}`;
    if (!asked.log || said === asked.measured) return `${both}.`;
    const times = factor(asked, said);
    if (times === 1) return `${both}: as good as right.`;
    return `${both}: ${digits(Math.max(times, 1 / times), 2)} times too ${times > 1 ? "high" : "low"}.`;
  }

  /* ---- the scale -------------------------------------------------------------------------------------------------- */

  function at(asked, share) {
    const { low, high, log } = asked;
    return Number((log ? low * (high / low) ** share : low + (high - low) * share).toPrecision(3));
  }

  function shareOf(asked, value) {
    const { low, high, log } = asked;
    const share = log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
    return Math.min(1, Math.max(0, share));
  }

  /* Where both stand, on the scale that was asked for, or as far beyond it as was said; the sentence above it says the
     same to who cannot see it. */
  function drawn(asked, said) {
    const all = [asked.low, asked.high, said ?? asked.low];
    const scale = { ...asked, low: Math.min(...all), high: Math.max(...all) };
    const mark = (kind, value) => {
      const made = element("span", { class: `lab-mark lab-mark-${kind}` });
      made.style.insetInlineStart = `${100 * shareOf(scale, value)}%`;
      return made;
    };
    const line = element("div", { class: "lab-scale-line" }, mark("measured", asked.measured));
    if (said !== undefined) line.append(mark("said", said));
    const ends = element("div", { class: "lab-scale-ends" });
    ends.append(...[scale.low, scale.high].map((end) => element("span", {}, text(asked, end))));
    ends.firstChild.after(element("span", {}, said === undefined ? "◆ answer" : "○ you said · ◆ answer"));
    return element("div", { class: "lab-scale", "aria-hidden": "true" }, line, ends);
  }

  /* ---- one prediction --------------------------------------------------------------------------------------------- */

  let groups = 0;

  function choiceOf(asked, ready) {
    const name = `lab-prediction-${groups++}`;
    const field = element("fieldset", { class: "lab-options" });
    field.append(element("legend", {}, "Your prediction"));
    let said;
    for (const choice of asked.choices) {
      const radio = element("input", { type: "radio", name });
      radio.onchange = () => {
        said = choice;
        ready();
      };
      field.append(element("label", {}, radio, ` ${choice}`));
    }
    return [[field], () => said];
  }

  function numberOf(asked, ready) {
    const slider = element("input", { type: "range", min: 0, max: STEPS, value: STEPS / 2 });
    const field = element("input", { type: "number", step: "any", inputmode: "decimal" });
    slider.setAttribute("aria-label", `Your prediction${asked.unit ? `, in ${asked.unit.trim()}` : ""}`);
    field.setAttribute("aria-label", "The same as a number");
    const show = () => slider.setAttribute("aria-valuetext", text(asked, at(asked, slider.value / STEPS)));
    show();
    slider.oninput = () => {
      field.value = at(asked, slider.value / STEPS);
      show();
      ready();
    };
    field.oninput = () => {
      const value = field.valueAsNumber;
      if (!Number.isFinite(value) || (asked.log && value <= 0)) return ready(false);
      slider.value = STEPS * shareOf(asked, value);
      show();
      ready();
    };
    const ends = (value) => element("span", { class: "lab-end" }, text(asked, value));
    const line = element("div", { class: "lab-slide" }, ends(asked.low), slider, ends(asked.high));
    const number = element("label", {}, field, asked.unit);
    return [[line, number], () => field.valueAsNumber];
  }

  function prepare(section) {
    let asked;
    try {
      asked = JSON.parse(section.querySelector(".lab-asked").textContent);
    } catch {
      return; // damaged data: the result stays in sight
    }
    const veil = section.closest(".cell")?.nextElementSibling;
    const follows = veil?.nextElementSibling;
    if (!veil?.matches(".lab-veil") || !follows?.matches(".lab-follows")) return;
    const answer = section.querySelector(".lab-answer");
    const result = answer.querySelector(".lab-measured");
    const guessed = [...answer.querySelectorAll(".lab-guessed")];
    follows.prepend(answer);

    function reveal(said, move) {
      if (!veil.isConnected) return;
      const sentence = said === undefined ? `Answer: ${asked.text}.` : compared(asked, said);
      const told = element("p", { class: "lab-said", tabindex: "-1" }, sentence);
      section.querySelector(".lab-ask")?.remove();
      veil.remove();
      result.remove();
      section.append(...(asked.choices ? [] : [drawn(asked, said)]), told, ...guessed);
      follows.removeAttribute("hidden");
      follows.dispatchEvent(new Event("toggle")); // it has its width now: a wide table becomes cards on a phone
      dispatchEvent(new Event("resize"));
      if (move) told.focus({ preventScroll: true });
    }
    reveals.push(reveal);

    const before = known()[keyOf(asked)];
    if (before && typeof before.said === (asked.choices ? "string" : "number")) return reveal(before.said);
    if (everything()) return reveal();

    const commit = element("button", { type: "button", class: "lab-commit", disabled: "" }, "That is my prediction");
    const ready = (is = true) => (commit.disabled = !is);
    const [controls, said] = (asked.choices ? choiceOf : numberOf)(asked, ready);
    const shown = element("button", { type: "button", class: "lab-show" }, "Show me");
    commit.onclick = () => {
      const { measured, text: found, log = false, choices } = asked;
      const entry = { said: said(), measured, found, log, chosen: Boolean(choices), question: asked.question };
      entry.text = text(asked, entry.said);
      entry.page = `${location.pathname}`;
      entry.title = document.querySelector("article h1")?.firstChild?.textContent ?? document.title;
      keep({ ...known(), [keyOf(asked)]: entry });
      reveal(entry.said, true);
    };
    shown.onclick = () => reveal(undefined, true);
    section.querySelector(".lab-question").after(element("div", { class: "lab-ask" }, ...controls, element("p", { class: "lab-buttons" }, commit, " ", shown)));
    follows.setAttribute("hidden", "until-found"); // what is searched in the page, or linked to, opens it
    follows.addEventListener("beforematch", () => reveal());
    opens.set(follows, reveal);
  }

  /* ---- all of a page ---------------------------------------------------------------------------------------------- */

  const reveals = [];
  const opens = new Map();

  const everything = () => localStorage.getItem(ALL) === "true";

  /* What the address names is in sight, whatever hides it. */
  function openSought() {
    const sought = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const hidden = sought?.closest(".lab-follows[hidden]");
    if (!hidden) return;
    opens.get(hidden)();
    sought.scrollIntoView();
  }

  function offerAll(place) {
    const box = element("input", { type: "checkbox" });
    box.checked = everything();
    box.onchange = () => {
      localStorage.setItem(ALL, `${box.checked}`);
      if (box.checked) reveals.forEach((reveal) => reveal());
      else location.reload();
    };
    place.append(element("label", { class: "lab-switch" }, box, "Show all answers"));
  }

  /* ---- the page that sums up -------------------------------------------------------------------------------------- */

  function summary(entries) {
    const numbers = entries.filter((each) => each.log);
    const factors = numbers.map((each) => factor(each, each.said)).map((times) => Math.max(times, 1 / times));
    const chosen = entries.filter((each) => each.chosen);
    const parts = [];
    if (numbers.length) {
      const close = factors.filter((times) => times <= 2).length;
      const typical = factors.sort((a, b) => a - b)[Math.floor(factors.length / 2)];
      const high = numbers.filter((each) => each.said > each.measured).length;
      parts.push(
        `Numbers: ${numbers.length} predicted, ${close} within a factor of two, ${high} too high; typically off by a ` +
          `factor of ${digits(typical, 2)}.`,
      );
    }
    if (chosen.length)
      parts.push(`Choices: ${chosen.length} made, ${chosen.filter((each) => each.said === each.measured).length} right.`);
    return parts.join(" ");
  }

  function sumUp(place) {
    const entries = Object.values(known());
    if (!entries.length) {
      place.replaceChildren(element("p", {}, "You have not predicted anything yet in this browser."));
      return;
    }
    const list = element("ul");
    for (const each of entries) {
      const link = element("a", { href: each.page }, each.title);
      const rest = `: ${each.question.replace(/[`*]/g, "")} You said ${each.text}; the answer is ${each.found}.`;
      list.append(element("li", {}, link, rest));
    }
    const forget = element("button", { type: "button", class: "lab-forget" }, "Forget my predictions");
    forget.onclick = () => {
      keep({});
      sumUp(place);
    };
    place.replaceChildren(element("p", { role: "status" }, summary(entries)), list, forget);
  }

  /* ---- the page of guesses: what was said to each, and the score --------------------------------------------------- */

  const isRight = ({ chosen, said, measured }) => (chosen ? said === measured : Math.abs(said - measured) <= Math.abs(measured) / 10);

  function score(place) {
    const all = known();
    const rows = [...document.querySelectorAll(".lab-guesses > li")];
    const said = rows.map((row) => [row, all[row.dataset.key]]).filter(([, entry]) => entry);
    for (const [row, entry] of said) {
      const right = isRight(entry);
      row.classList.add(right ? "lab-right" : "lab-wrong");
      row.append(element("p", {}, `You said ${entry.text}; the answer is ${entry.found}${right ? ", as you said" : ""}.`));
    }
    const right = said.filter(([, entry]) => isRight(entry)).length;
    place.textContent = said.length
      ? `You have answered ${said.length} of ${rows.length}, ${right} of them right.`
      : `You have answered none of ${rows.length} in this browser. Each question is a link away.`;
  }

  document.querySelectorAll(".lab-prediction").forEach(prepare);
  const head = document.querySelector(".lab-eyebrow");
  if (head && reveals.length) offerAll(head);
  document.documentElement.classList.add("lab-armed");
  openSought();
  addEventListener("hashchange", openSought);
  document.querySelectorAll(".lab-guess-score").forEach(score);
  document.querySelectorAll(".lab-calibration").forEach(sumUp);
})();
