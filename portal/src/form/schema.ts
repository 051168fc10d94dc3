import type { RJSFSchema, UiSchema } from "@rjsf/utils";
import type { Json, JsonObject, Kind } from "../api/types";
import { isObject } from "../lib/paths";

/** A form: its schema, how each field is shown, and the part of the object that it edits. */
export interface FormModel {
  schema: RJSFSchema;
  uiSchema: UiSchema;
  /** Path of the part of the object that the form edits: `["spec"]`, or `[]` for the whole object. */
  root: string[];
}

/** Maximum depth of form fields; deeper fields are edited as YAML. */
const DEEPEST = 10;
const NOT_IN_FORM = new Set(["apiVersion", "kind", "metadata", "status"]);

/** Builds the form of a kind. Where the schema accepts any field, those present in `data` become form fields. */
export function formModel(kind: Kind, data: JsonObject): FormModel {
  const properties = isObject(kind.schema?.properties) ? kind.schema.properties : {};
  const names = Object.keys(properties).filter((name) => !NOT_IN_FORM.has(name));
  if (names.length === 1 && names[0] === "spec") {
    const converted = convert(properties.spec, data.spec, 0);
    return { ...converted, root: ["spec"] };
  }
  const rest: JsonObject = { ...kind.schema, properties: Object.fromEntries(names.map((name) => [name, properties[name]])) };
  return { ...convert(rest, data, 0), root: [] };
}

/** Returns whether the schema declares no fields of the spec and accepts any. */
export function hasOpenSpec(kind: Kind): boolean {
  const spec = isObject(kind.schema?.properties) ? kind.schema.properties.spec : undefined;
  return isObject(spec) && spec["x-kubernetes-preserve-unknown-fields"] === true && Object.keys(isObject(spec.properties) ? spec.properties : {}).length === 0;
}

interface Converted {
  schema: RJSFSchema;
  uiSchema: UiSchema;
}

function convert(given: Json | undefined, data: Json | undefined, depth: number): Converted {
  const source = isObject(given) ? given : {};
  const base: RJSFSchema = {};
  for (const key of ["title", "description", "format", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "enum"] as const) {
    if (source[key] !== undefined) (base as JsonObject)[key] = source[key];
  }
  const ui: UiSchema = {};
  if (source.default !== undefined) ui["ui:placeholder"] = typeof source.default === "string" ? source.default : JSON.stringify(source.default);

  if (source["x-kubernetes-int-or-string"] === true) {
    return { schema: { ...base, type: "string" }, uiSchema: { ...ui, "ui:widget": "intOrString" } };
  }
  switch (source.type) {
    case "string":
      if (source.format === "password") ui["ui:widget"] = "password";
      return { schema: { ...base, type: "string" }, uiSchema: ui };
    case "integer":
    case "number":
      return { schema: { ...base, type: source.type }, uiSchema: ui };
    case "boolean":
      return { schema: { ...base, type: "boolean" }, uiSchema: { ...ui, "ui:widget": "choice" } };
    case "array":
      return convertArray(source, base, ui, data, depth);
    case "object":
      return convertObject(source, base, ui, data, depth);
    default:
      return yamlField(base, ui);
  }
}

function convertArray(source: JsonObject, base: RJSFSchema, ui: UiSchema, data: Json | undefined, depth: number): Converted {
  if (depth > DEEPEST || !isObject(source.items)) return yamlField(base, ui);
  // Elements may differ where the schema accepts any field: the form shows the union of their fields.
  const sample = Array.isArray(data) ? data.reduce<Json>((all, item) => (isObject(all) && isObject(item) ? { ...all, ...item } : (item ?? all)), {}) : undefined;
  const items = convert(source.items, sample, depth + 1);
  const keys = source["x-kubernetes-list-map-keys"];
  if (Array.isArray(keys)) ui["ui:listMapKeys"] = keys;
  return { schema: { ...base, type: "array", items: items.schema }, uiSchema: { ...ui, items: items.uiSchema } };
}

function convertObject(source: JsonObject, base: RJSFSchema, ui: UiSchema, data: Json | undefined, depth: number): Converted {
  if (depth > DEEPEST || source["x-kubernetes-embedded-resource"] === true) return yamlField(base, ui);
  const properties = isObject(source.properties) ? source.properties : {};
  const anyField = source["x-kubernetes-preserve-unknown-fields"] === true;
  const schema: RJSFSchema = { ...base, type: "object", properties: {} };
  const uiSchema: UiSchema = { ...ui };
  const known: Record<string, Json | undefined> = { ...properties };
  if (anyField && isObject(data)) {
    for (const [name, value] of Object.entries(data)) known[name] ??= infer(value);
  }
  if (isObject(source.additionalProperties)) {
    const values = convert(source.additionalProperties, isObject(data) ? Object.values(data)[0] : undefined, depth + 1);
    if (values.uiSchema["ui:field"] === "yaml") return yamlField(base, ui);
    schema.additionalProperties = values.schema;
    uiSchema.additionalProperties = values.uiSchema;
    return { schema, uiSchema };
  }
  if (Object.keys(known).length === 0) return yamlField(base, ui);
  for (const [name, value] of Object.entries(known)) {
    const inner = convert(value, isObject(data) ? data[name] : undefined, depth + 1);
    (schema.properties ??= {})[name] = inner.schema;
    uiSchema[name] = inner.uiSchema;
  }
  if (Array.isArray(source.required)) {
    // The server fills in required fields that have a default; the form requires only the others.
    schema.required = source.required.filter((name): name is string => typeof name === "string" && !hasDefault(properties[name]));
  }
  return { schema, uiSchema };
}

function hasDefault(schema: Json | undefined): boolean {
  return isObject(schema) && schema.default !== undefined;
}

function yamlField(base: RJSFSchema, ui: UiSchema): Converted {
  return { schema: base, uiSchema: { ...ui, "ui:field": "yaml" } };
}

/** Infers a schema from a value, for objects that accept any field. */
function infer(value: Json | undefined): JsonObject {
  if (typeof value === "string") return { type: "string" };
  if (typeof value === "number") return { type: Number.isInteger(value) ? "integer" : "number" };
  if (typeof value === "boolean") return { type: "boolean" };
  if (Array.isArray(value)) {
    const first = value[0];
    return first === undefined || first === null ? {} : { type: "array", items: infer(first) };
  }
  if (isObject(value) && Object.keys(value).length > 0) return { type: "object", "x-kubernetes-preserve-unknown-fields": true };
  return {};
}
