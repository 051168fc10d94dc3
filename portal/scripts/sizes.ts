// Fails if the first load, before editor and graph, or the web component exceeds its size limit.
import { readdirSync, readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const FIRST_LOAD_LIMIT = 300 * 1024;
const BUTTON_LIMIT = 10 * 1024;

const packed = (path: string): number => (path.endsWith(".woff2") ? readFileSync(path).length : gzipSync(readFileSync(path), { level: 9 }).length);
const html = readFileSync("dist/index.html", "utf8");
const named = [...html.matchAll(/(?:src|href)="\/([^"]+)"/g)].map((match) => `dist/${match[1] ?? ""}`);
const fonts = readdirSync("dist/assets").filter((name) => name.endsWith(".woff2")).map((name) => `dist/assets/${name}`);
const first = [...new Set(["dist/index.html", ...named, ...fonts])].reduce((sum, path) => sum + packed(path), 0);
const button = readFileSync("dist/embed/steer-button.js").length;
console.log(`first load ${first.toLocaleString("en")} bytes compressed, <steer-button> ${button.toLocaleString("en")} bytes`);
if (first > FIRST_LOAD_LIMIT || button > BUTTON_LIMIT) {
  console.error(`over the limit: ${FIRST_LOAD_LIMIT} for the first load, ${BUTTON_LIMIT} for the button`);
  process.exit(1);
}
