/* Typesets formulas for the build: one JSON request a line in ({tex, display}), one line out ({html} or {error}). */
"use strict";
const readline = require("node:readline");

require(process.argv[2]).init({
  loader: { load: ["input/tex", "output/svg", "a11y/assistive-mml"] },
  tex: { formatError: (_, error) => { throw error; } },
  svg: { fontCache: "none" },
}).then((MathJax) => {
  const adaptor = MathJax.startup.adaptor;
  readline.createInterface({ input: process.stdin }).on("line", (line) => {
    const { tex, display } = JSON.parse(line);
    let answer;
    try {
      answer = { html: adaptor.outerHTML(MathJax.tex2svg(tex, { display })) };
    } catch (error) {
      answer = { error: error.message };
    }
    process.stdout.write(JSON.stringify(answer) + "\n");
  });
});
