import type { Change, Json, JsonObject } from "../api/types";

/** Segments of a field path: `spec.containers[0].image` → `["spec", "containers", 0, "image"]`. */
export type Segments = (string | number)[];

/** Parses an API field path (`a.b[0]["x.y/z"]`) into its segments. */
export function parsePath(path: string): Segments {
  const segments: Segments = [];
  const pattern = /\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]|\[([^\]]*)\]|([^.[\]]+)/g;
  for (const match of path.matchAll(pattern)) {
    const [, index, quoted, bare, name] = match;
    if (index !== undefined) segments.push(Number(index));
    else segments.push(quoted ?? bare ?? name ?? "");
  }
  return segments;
}

/** Formats segments as an API field path. */
export function formatPath(segments: Segments): string {
  return segments
    .map((segment, i) => {
      if (typeof segment === "number") return `[${segment}]`;
      if (/[.[\]"]/.test(segment)) return `[${JSON.stringify(segment)}]`;
      return i === 0 ? segment : `.${segment}`;
    })
    .join("");
}

/** Returns the value at a path, or undefined. */
export function getPath(value: Json | undefined, segments: Segments): Json | undefined {
  let current: Json | undefined = value;
  for (const segment of segments) {
    if (Array.isArray(current)) current = typeof segment === "number" ? current[segment] : undefined;
    else if (isObject(current)) current = current[String(segment)];
    else return undefined;
  }
  return current;
}

/** Returns a copy of `value` with `next` at the path; undefined removes the field. */
export function setPath(value: Json | undefined, segments: Segments, next: Json | undefined): Json | undefined {
  const [head, ...rest] = segments;
  if (head === undefined) return next;
  if (typeof head === "number") {
    const list = Array.isArray(value) ? [...value] : [];
    const inner = setPath(list[head], rest, next);
    if (inner === undefined) list.splice(head, 1);
    else list[head] = inner;
    return list;
  }
  const object: JsonObject = isObject(value) ? { ...value } : {};
  const inner = setPath(object[head], rest, next);
  if (inner === undefined) Reflect.deleteProperty(object, head);
  else object[head] = inner;
  return object;
}

/** Returns whether a value is a JSON object, not an array. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns whether two JSON values are equal. */
export function equal(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((item, i) => equal(item, b[i]));
  if (isObject(a) && isObject(b)) {
    const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
    return [...keys].every((key) => equal(a[key], b[key]));
  }
  return false;
}

/** Returns the fields in which two values differ; arrays are compared as a whole, as in merge patches. */
export function compare(before: Json | undefined, after: Json | undefined, at: Segments = []): Change[] {
  if (equal(before, after)) return [];
  if (isObject(before) && isObject(after)) {
    const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
    return keys.flatMap((key) => compare(before[key], after[key], [...at, key]));
  }
  const op = before === undefined ? "add" : after === undefined ? "remove" : "replace";
  return [{ path: formatPath(at), op, before: before ?? null, after: after ?? null }];
}

/** Returns the JSON merge patch (RFC 7396) that turns `before` into `after`. */
export function mergePatch(before: JsonObject, after: JsonObject): JsonObject {
  const patch: JsonObject = {};
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const old = before[key];
    const next = after[key];
    if (equal(old, next)) continue;
    if (next === undefined) patch[key] = null;
    else if (isObject(old) && isObject(next)) patch[key] = mergePatch(old, next);
    else patch[key] = next;
  }
  return patch;
}
