import { parseDocument, stringify, type YAMLError } from "yaml";
import type { Json, JsonObject, K8sObject } from "../api/types";
import { compare, isObject, parsePath } from "./paths";

/** Parsed object, or the error and the line where the text is not YAML. */
export type Parsed = { object: JsonObject; error?: undefined } | { object?: undefined; error: { message: string; line: number } };

/** Formats an object as YAML, without folding long lines. */
export function toYaml(value: JsonObject): string {
  return stringify(value, { lineWidth: 0 });
}

/** Parses text that must be a single YAML mapping. */
export function parseYaml(text: string): Parsed {
  const document = parseDocument(text, { prettyErrors: true });
  const first = document.errors[0];
  if (first) return { error: { message: syntaxMessage(first), line: first.linePos?.[0].line ?? 1 } };
  const value: unknown = document.toJS();
  if (value === null) return { object: {} };
  if (!isObject(value)) return { error: { message: "Expected a mapping of fields", line: 1 } };
  return { object: value };
}

function syntaxMessage(error: YAMLError): string {
  if (error.code === "MULTIPLE_DOCS") return "Only one document is allowed";
  // The line is shown next to the message.
  return (error.message.split("\n")[0] ?? "").replace(/ at line \d+, column \d+:?$/, "");
}

/** Updates the fields of `text` that differ from `next`; preserves comments and order of the others. */
export function updateYaml(text: string, next: JsonObject): string {
  const document = parseDocument(text);
  const before = document.toJS() as Json;
  if (document.errors.length > 0 || !isObject(before)) return toYaml(next);
  for (const change of compare(before, next)) {
    const path = parsePath(change.path);
    if (change.op === "remove") document.deleteIn(path);
    else document.setIn(path, document.createNode(change.after));
  }
  return document.toString({ lineWidth: 0 });
}

const SERVER_FIELDS = ["uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink"];
const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";

/** Returns the user-written part of an object, without status and server-set fields. */
export function editable(object: K8sObject): JsonObject {
  const metadata: JsonObject = { ...object.metadata };
  for (const field of [...SERVER_FIELDS, "finalizers", "ownerReferences"]) Reflect.deleteProperty(metadata, field);
  if (isObject(metadata.annotations)) {
    const annotations = { ...metadata.annotations };
    Reflect.deleteProperty(annotations, LAST_APPLIED);
    if (Object.keys(annotations).length > 0) metadata.annotations = annotations;
    else Reflect.deleteProperty(metadata, "annotations");
  }
  const rest: JsonObject = { ...object };
  for (const name of ["apiVersion", "kind", "metadata", "status"]) Reflect.deleteProperty(rest, name);
  return { apiVersion: object.apiVersion, kind: object.kind, metadata, ...rest };
}
