/* Exercises in the page: the cell becomes a field, and the exercise's own judge, in plain Python, says what is wrong.
   An answer is kept in this browser; Python is loaded at the first check, and stopped if an answer never ends. */
(() => {
  "use strict";

  const { element, message, python } = window.lab;
  const INDENT = "    ";

  const kept = (name) => localStorage.getItem(`lab-answer-${name}`);

  function keep(name, answer) {
    if (answer === null) localStorage.removeItem(`lab-answer-${name}`);
    else localStorage.setItem(`lab-answer-${name}`, answer);
  }

  /* A new line begins where the last one began, and deeper after a colon. Tab goes on to the next control, as ever. */
  function typing(field, check) {
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.isComposing) return;
      event.preventDefault();
      if (event.ctrlKey || event.metaKey || event.shiftKey) return check();
      const line = field.value.slice(0, field.selectionStart).split("\n").pop();
      const deeper = line.trimEnd().endsWith(":") ? INDENT : "";
      field.setRangeText(`\n${line.match(/^ */)[0]}${deeper}`, field.selectionStart, field.selectionEnd, "end");
      field.dispatchEvent(new Event("input"));
    });
  }

  const button = (text, run) => {
    const made = element("button", { type: "button", class: "lab-again" }, text);
    made.addEventListener("click", run);
    return made;
  };

  function begin(cell) {
    const name = [...cell.classList].find((each) => each.startsWith("tag_exercise-")).replace("tag_exercise-", "");
    const code = cell.querySelector(".cell_input");
    const output = cell.querySelector(".cell_output .output");
    const starter = code.querySelector("pre").textContent.trimEnd();
    const status = element("p", { class: "lab-note", role: "status" });
    const field = element("textarea", {
      "aria-label": `Your answer to ${name}`,
      spellcheck: "false",
      autocapitalize: "off",
      autocomplete: "off",
    });
    const { progress, awake } = python.loader(status);
    let busy = false;

    function fits() {
      field.rows = field.value.split("\n").length + 1;
    }

    async function check() {
      if (busy) return;
      busy = true;
      try {
        await awake();
        status.textContent = "running …";
        output.innerHTML = await python.judge(field.value); // texts, written as HTML by controls.js
        works();
      } catch (error) {
        output.replaceChildren(message(error.message));
        retry.hidden = false;
      } finally {
        status.textContent = "";
        busy = false;
      }
    }

    function works() {
      if (retry === document.activeElement) checks.focus();
      retry.hidden = true;
    }

    function open(answer) {
      field.value = answer;
      fits();
      code.replaceChildren(field);
      code.after(bar);
      begun.hidden = true;
      for (const each of [checks, anew]) each.hidden = false;
      status.textContent = `Ctrl+Enter checks, too. ${python.asleep("check")}`;
    }

    function again() {
      keep(name, null);
      open(starter);
      field.focus();
    }

    field.addEventListener("input", () => {
      fits();
      keep(name, field.value);
    });
    typing(field, check);
    output.setAttribute("aria-live", "polite");
    const begun = button("Answer here", () => {
      open(starter);
      field.focus();
    });
    const checks = button("Check", check);
    const anew = button("Start over", again);
    const retry = python.retrying(check);
    for (const each of [checks, anew]) each.hidden = true; // there from the start, so that they are in the site's language
    const bar = element("div", { class: "lab-reply" }, begun, checks, anew, retry, status, progress);
    code.append(bar);
    if (kept(name) !== null) open(kept(name));
  }

  if (location.protocol !== "file:") document.querySelectorAll(".cell.tag_in-page").forEach(begin);
})();
