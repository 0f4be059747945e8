/* What a result of the search shows of its page: its words, and not its code, which Sphinx would take along. */
(() => {
  "use strict";

  const words = Search.htmlToText;
  Search.htmlToText = (text, anchor) => {
    const page = new DOMParser().parseFromString(text, "text/html");
    page.querySelectorAll("details.hide, .cell_input, .doctest, .lab-cell-number, .lab-report").forEach((each) => each.remove());
    return words(page.documentElement.outerHTML, anchor);
  };
})();
