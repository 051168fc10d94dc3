import type { Json, JsonObject } from "../api/types";
import { isObject } from "./paths";

/** A field or value that is valid at a position in the YAML. */
export interface Suggestion {
  text: string;
  isField: boolean;
  isContainer: boolean;
  detail?: string;
  info?: string;
}

const FIELD = /^(\s*(?:- )*\s*)([^\s:#][^:]*):(\s.*)?$/;

/** Returns what the schema allows at the end of `lines`, the text up to the word at the cursor. */
export function fieldsAt(schema: JsonObject, lines: readonly string[]): Suggestion[] {
  const last = lines.at(-1) ?? "";
  const value = /^(\s*(?:- )*)([\w./-]+):\s+$/.exec(last);
  if (value) return valuesOf(descend(schema, [...parents(lines, indentOf(value[1] ?? "")), value[2] ?? ""]));
  if (!/^\s*(?:- )*$/.test(last)) return [];
  const at = descend(schema, parents(lines, indentOf(last)));
  const properties = at && isObject(at.properties) ? at.properties : {};
  return Object.entries(properties).map(([text, field]) => {
    const type = isObject(field) && typeof field.type === "string" ? field.type : "";
    const info = isObject(field) && typeof field.description === "string" ? field.description : "";
    return { text, isField: true, isContainer: type === "object" || type === "array", ...(type ? { detail: type } : {}), ...(info ? { info } : {}) };
  });
}

function indentOf(text: string): number {
  return text.length;
}

/** Returns the names of the fields that enclose a line of this indentation. */
function parents(lines: readonly string[], indent: number): string[] {
  const names: string[] = [];
  let limit = indent;
  for (let i = lines.length - 2; i >= 0 && limit > 0; i--) {
    const match = FIELD.exec(lines[i] ?? "");
    if (!match) continue;
    const at = (match[1] ?? "").length;
    const opens = (match[3] ?? "").trim() === "";
    if (at < limit && opens) {
      names.unshift(match[2] ?? "");
      limit = at;
    } else if (at < limit) {
      limit = Math.min(limit, at + 1);
    }
  }
  return names;
}

function descend(schema: JsonObject, path: readonly string[]): JsonObject | undefined {
  let at: Json | undefined = schema;
  for (const name of path) {
    at = intoItems(at);
    if (!isObject(at)) return undefined;
    const known: Json | undefined = isObject(at.properties) ? at.properties[name] : undefined;
    at = known ?? (isObject(at.additionalProperties) ? at.additionalProperties : undefined);
  }
  at = intoItems(at);
  return isObject(at) ? at : undefined;
}

function intoItems(schema: Json | undefined): Json | undefined {
  return isObject(schema) && schema.type === "array" ? schema.items : schema;
}

function valuesOf(schema: JsonObject | undefined): Suggestion[] {
  if (!schema) return [];
  const values = Array.isArray(schema.enum) ? schema.enum : schema.type === "boolean" ? [true, false] : schema.default !== undefined ? [schema.default] : [];
  return values
    .filter((value) => typeof value !== "object")
    .map((value) => ({ text: String(value), isField: false, isContainer: false, ...(value === schema.default ? { detail: "default" } : {}) }));
}
