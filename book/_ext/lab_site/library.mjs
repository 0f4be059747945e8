/* Runs library.py in Pyodide: node library.mjs PYODIDE OURS.zip MADE.zip */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [pyodide, ours, made] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(join(pyodide, "pyodide.mjs")));
const python = await loadPyodide({ indexURL: pyodide });
python.FS.writeFile("/ours.zip", readFileSync(ours));
python.runPython(readFileSync(new URL("library.py", import.meta.url), "utf-8"));
writeFileSync(made, python.FS.readFile("/python.zip"));
