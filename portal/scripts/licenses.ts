// Writes the licences of the packages that the portal is built from next to its files.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

interface Lock {
  packages: Record<string, { version?: string; license?: string; dev?: boolean; optional?: boolean }>;
}

const lock = JSON.parse(readFileSync("package-lock.json", "utf8")) as Lock;
const parts = Object.entries(lock.packages)
  .filter(([path, each]) => path !== "" && !each.dev && !each.optional && existsSync(path))
  .sort(([a], [b]) => (a < b ? -1 : 1))
  .map(([path, each]) => {
    const file = readdirSync(path).find((name) => /^licen[cs]e(\.\w+)?$/i.test(name));
    const text = file ? readFileSync(join(path, file), "utf8").replace(/\r\n/g, "\n").trim() : `Licence: ${each.license ?? "see the package"}`;
    return `${path.replace(/^.*node_modules\//, "")} ${each.version ?? ""}\n\n${text}\n`;
  });
writeFileSync("dist/licenses.txt", parts.join(`\n${"-".repeat(72)}\n\n`));
