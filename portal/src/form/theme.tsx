import {
  ADDITIONAL_PROPERTY_FLAG,
  canExpand,
  type ArrayFieldItemTemplateProps,
  type ArrayFieldTemplateProps,
  type BaseInputTemplateProps,
  type FieldProps,
  type FieldTemplateProps,
  type ObjectFieldTemplateProps,
  type RegistryFieldsType,
  type RegistryWidgetsType,
  type TemplatesType,
  type WidgetProps,
  type WrapIfAdditionalTemplateProps,
} from "@rjsf/utils";
import { useId, useState, type ReactNode } from "react";
import { parse, stringify } from "yaml";
import type { Json } from "../api/types";
import { Button } from "../components/Button";
import { HealthIcon } from "../components/Health";
import { Icon } from "../components/Icon";
import { equal, isObject } from "../lib/paths";

/** Turns a field name into a readable label: `replicaCount` becomes `Replica count`. */
export function humanise(name: string): string {
  const words = name.replace(/[_-]+/g, " ").replace(/([a-z0-9])([A-Z])/g, "$1 $2").replace(/([A-Z]+)([A-Z][a-z])/g, "$1 $2");
  const lower = words
    .split(" ")
    .map((word) => (/^[A-Z0-9]{2,}$/.test(word) ? word : word.toLowerCase()))
    .join(" ");
  return lower.charAt(0).toUpperCase() + lower.slice(1);
}

function Errors({ id, errors }: { id: string; errors: readonly string[] | undefined }) {
  if (!errors || errors.length === 0) return null;
  return (
    <div id={`${id}__error`} role="alert">
      {errors.map((error) => (
        <p key={error} className="field-error">
          <HealthIcon status="failing" size={12} />
          {error}
        </p>
      ))}
    </div>
  );
}

function FieldTemplate(props: FieldTemplateProps) {
  const { id, label, children, displayLabel, hidden, required, rawDescription, rawErrors, schema, registry, uiSchema, classNames } = props;
  if (hidden) return <div hidden>{children}</div>;
  const additional = ADDITIONAL_PROPERTY_FLAG in schema;
  const Wrap = registry.templates.WrapIfAdditionalTemplate;
  const labelled = (displayLabel === true || uiSchema?.["ui:field"] === "yaml") && !additional;
  return (
    <Wrap {...props} {...(classNames ? { classNames } : {})}>
      <div className="field">
        {labelled && (
          <label htmlFor={id}>
            {schema.title ?? humanise(label)} {required && <span className="required">required</span>}
          </label>
        )}
        {children}
        {labelled && rawDescription && (
          <p id={`${id}__description`} className="field-help">
            {rawDescription}
          </p>
        )}
        <Errors id={id} errors={rawErrors} />
      </div>
    </Wrap>
  );
}

function WrapIfAdditionalTemplate({ id, label, children, schema, onKeyRenameBlur, onRemoveProperty }: WrapIfAdditionalTemplateProps) {
  if (!(ADDITIONAL_PROPERTY_FLAG in schema)) return <>{children}</>;
  return (
    <div className="map-entry">
      <input key={label} className="input mono" aria-label="Key" defaultValue={label} id={`${id}-key`} onBlur={onKeyRenameBlur} />
      <div>{children}</div>
      <Button icon="trash" variant="quiet" aria-label={`Remove ${label}`} onClick={onRemoveProperty} />
    </div>
  );
}

/** Collapsible group of fields; collapsed content is not rendered, to keep large schemas fast. */
function Group({ title, note, open: openAtFirst, help, children, failed = false }: { title: string; note?: string; open: boolean; help?: ReactNode; children: ReactNode; failed?: boolean }) {
  const [open, setOpen] = useState(openAtFirst);
  return (
    <details className="group" open={open || failed} onToggle={(toggle) => { setOpen(toggle.currentTarget.open); }}>
      <summary>
        <Icon name="right" size={12} />
        <span className="field-label">{title}</span>
        {note && <span className="muted small truncate">{note}</span>}
        {failed && <HealthIcon status="failing" size={12} label />}
      </summary>
      {(open || failed) && (
        <div className="group-body">
          {help && <p className="field-help">{help}</p>}
          {children}
        </div>
      )}
    </details>
  );
}

function isSet(value: unknown): boolean {
  if (value === undefined || value === null) return false;
  if (Array.isArray(value)) return value.length > 0;
  if (isObject(value)) return Object.keys(value).length > 0;
  return true;
}

function ObjectFieldTemplate(props: ObjectFieldTemplateProps) {
  const formData: unknown = props.formData;
  const { properties, schema, title, description, fieldPathId, onAddProperty, errorSchema, uiSchema } = props;
  const data: Record<string, unknown> = isObject(formData) ? formData : {};
  const required = new Set(schema.required ?? []);
  const failed = (name: string): boolean => isSet((errorSchema as Record<string, unknown> | undefined)?.[name]);
  const visible = properties.filter((property) => !property.hidden);
  const isRoot = fieldPathId.path.length === 0;
  // Required fields without a default first, then fields with a value; the rest are collapsed.
  const asked = visible.filter((property) => required.has(property.name));
  const given = visible.filter((property) => !required.has(property.name) && (isSet(data[property.name]) || failed(property.name)));
  const [firstGiven] = useState(() => new Set(given.map((property) => property.name)));
  const rest = visible.filter((property) => !required.has(property.name) && !given.includes(property) && !firstGiven.has(property.name));
  const kept = visible.filter((property) => given.includes(property) || (firstGiven.has(property.name) && !required.has(property.name)));
  const expandable = Boolean(canExpand(schema, uiSchema, data));
  const few = visible.length <= 6;
  const front = few ? [...asked, ...visible.filter((property) => !required.has(property.name))] : [...asked, ...kept];
  const folded = few ? [] : rest;
  const fields = (
    <div className="object-fields">
      {front.map((property) => (
        <div key={property.name}>{property.content}</div>
      ))}
      {folded.length > 0 && (
        <Group title={front.length === 0 ? "Fields" : "More fields"} note={String(folded.length)} open={front.length === 0 && isRoot}>
          <div className="object-fields">
            {folded.map((property) => (
              <div key={property.name}>{property.content}</div>
            ))}
          </div>
        </Group>
      )}
      {expandable && (
        <div>
          <Button small icon="plus" onClick={onAddProperty}>
            Add entry
          </Button>
        </div>
      )}
    </div>
  );
  if (isRoot) return fields;
  const set = Object.keys(data).length;
  const note = set > 0 ? summary(data) : "not set";
  return (
    <Group title={schema.title ?? humanise(title || lastSegment(fieldPathId.path))} note={note} open={props.required === true || (set > 0 && fieldPathId.path.length < 3)} help={description} failed={isSet(errorSchema)}>
      {fields}
    </Group>
  );
}

function lastSegment(path: readonly (string | number)[]): string {
  return String(path.at(-1) ?? "");
}

function summary(data: Record<string, unknown>): string {
  return Object.entries(data)
    .map(([key, value]) => (typeof value === "object" ? key : `${key}: ${shown(value)}`))
    .join(", ");
}

function ArrayFieldTemplate({ items, title, schema, canAdd, onAddClick, required, fieldPathId, errorSchema }: ArrayFieldTemplateProps) {
  const name = schema.title ?? humanise(title || lastSegment(fieldPathId.path));
  return (
    <Group title={name} note={items.length === 0 ? "none" : String(items.length)} open={required === true || (items.length > 0 && items.length <= 5)} help={schema.description} failed={isSet(errorSchema)}>
      {items}
      {canAdd && (
        <div>
          <Button small icon="plus" onClick={onAddClick}>
            Add to {name.toLowerCase()}
          </Button>
        </div>
      )}
    </Group>
  );
}

function ArrayFieldItemTemplate({ children, buttonsProps, index, hasToolbar }: ArrayFieldItemTemplateProps) {
  return (
    <div className="array-item">
      <div className="grow">{children}</div>
      {hasToolbar && (
        <div className="row">
          {buttonsProps.hasMoveUp && index > 0 && <Button small variant="quiet" icon="up" aria-label={`Move item ${index + 1} up`} onClick={buttonsProps.onMoveUpItem} />}
          {buttonsProps.hasRemove && <Button small variant="quiet" icon="trash" aria-label={`Remove item ${index + 1}`} onClick={buttonsProps.onRemoveItem} />}
        </div>
      )}
    </div>
  );
}

function described(id: string, props: { rawErrors?: string[] }): { "aria-invalid": boolean; "aria-describedby": string } {
  const invalid = (props.rawErrors?.length ?? 0) > 0;
  return { "aria-invalid": invalid, "aria-describedby": invalid ? `${id}__error` : `${id}__description` };
}

/** Formats a scalar as text; an unset value is empty. */
function shown(value: unknown): string {
  return typeof value === "string" ? value : typeof value === "number" || typeof value === "boolean" ? String(value) : "";
}

function BaseInputTemplate(props: BaseInputTemplateProps) {
  const value: unknown = props.value;
  const { id, type, schema, onChange, onBlur, onFocus, placeholder, disabled, readonly, label } = props;
  const numeric = schema.type === "integer" || schema.type === "number";
  return (
    <input
      id={id}
      className="input"
      aria-label={label ? humanise(label) : undefined}
      type={numeric ? "number" : shown(type) || "text"}
      step={schema.type === "number" ? "any" : undefined}
      min={schema.minimum}
      max={schema.maximum}
      value={shown(value)}
      placeholder={placeholder ?? ""}
      disabled={disabled}
      readOnly={readonly}
      spellCheck={false}
      autoComplete="off"
      {...described(id, props)}
      onChange={(change) => { onChange(change.target.value === "" ? undefined : change.target.value); }}
      onBlur={() => { onBlur(id, value); }}
      onFocus={() => { onFocus(id, value); }}
    />
  );
}

function SelectWidget(props: WidgetProps) {
  const value: unknown = props.value;
  const { id, options, onChange, placeholder, disabled, label } = props;
  const choices = options.enumOptions ?? [];
  return (
    <select
      id={id}
      className="select"
      aria-label={humanise(label)}
      disabled={disabled}
      value={value === undefined ? "" : String(choices.findIndex((choice) => equal(choice.value as Json, value as Json)))}
      {...described(id, props)}
      onChange={(change) => { onChange(change.target.value === "" ? undefined : choices[Number(change.target.value)]?.value); }}
    >
      <option value="">{placeholder ? `Default: ${placeholder}` : "Not set"}</option>
      {choices.map((choice, i) => (
        <option key={i} value={i}>
          {choice.label}
        </option>
      ))}
    </select>
  );
}

/** Select for a boolean, with three states: yes, no and default. */
function ChoiceWidget(props: WidgetProps) {
  const value: unknown = props.value;
  const { id, onChange, placeholder, disabled, label } = props;
  return (
    <select
      id={id}
      className="select"
      aria-label={humanise(label)}
      disabled={disabled}
      value={shown(value)}
      {...described(id, props)}
      onChange={(change) => { onChange(change.target.value === "" ? undefined : change.target.value === "true"); }}
    >
      <option value="">{placeholder ? `Default: ${placeholder === "true" ? "yes" : "no"}` : "Not set"}</option>
      <option value="true">Yes</option>
      <option value="false">No</option>
    </select>
  );
}

/** Input for int-or-string: a number stays a number, any other value is a string: `80` or `25%`. */
function IntOrStringWidget(props: WidgetProps) {
  const value: unknown = props.value;
  const { id, onChange, placeholder, disabled, label } = props;
  return (
    <input
      id={id}
      className="input"
      aria-label={humanise(label)}
      value={shown(value)}
      placeholder={placeholder}
      disabled={disabled}
      {...described(id, props)}
      onChange={(change) => {
        const text = change.target.value;
        onChange(text === "" ? undefined : /^-?\d+$/.test(text) ? Number(text) : text);
      }}
    />
  );
}

/** YAML of a part of the object that has no form. */
function YamlField(props: FieldProps) {
  const { onChange, fieldPathId, schema, name } = props;
  const formData: unknown = props.formData;
  const help = useId();
  const [edit, setEdit] = useState<{ text: string; value: unknown }>();
  const [error, setError] = useState("");
  // Keep the typed text as long as it matches the object's value.
  const text = edit && equal(edit.value as Json, formData as Json) ? edit.text : formData === undefined ? "" : stringify(formData);
  return (
    <>
      <textarea
        id={fieldPathId.$id}
        className="textarea"
        rows={Math.min(12, Math.max(2, text.split("\n").length))}
        spellCheck={false}
        aria-label={schema.title ?? humanise(name)}
        aria-invalid={error !== ""}
        aria-describedby={help}
        placeholder="key: value"
        value={error ? (edit?.text ?? "") : text}
        onChange={(change) => {
          const typed = change.target.value;
          try {
            const value: unknown = typed.trim() === "" ? undefined : parse(typed);
            setError("");
            setEdit({ text: typed, value });
            onChange(value, fieldPathId.path);
          } catch (failure) {
            setError(failure instanceof Error ? (failure.message.split("\n")[0] ?? "").replace(/:$/, "") : "Not valid YAML");
            setEdit({ text: typed, value: formData });
          }
        }}
      />
      <p id={help} className={error ? "field-error" : "field-help"}>
        {error || "Enter YAML."}
      </p>
    </>
  );
}

export const templates: Partial<TemplatesType> = {
  FieldTemplate,
  ObjectFieldTemplate,
  ArrayFieldTemplate,
  ArrayFieldItemTemplate,
  BaseInputTemplate,
  WrapIfAdditionalTemplate,
  DescriptionFieldTemplate: () => null,
  FieldErrorTemplate: () => null,
};

export const widgets: RegistryWidgetsType = { SelectWidget, choice: ChoiceWidget, intOrString: IntOrStringWidget };

export const fields: RegistryFieldsType = { yaml: YamlField };
