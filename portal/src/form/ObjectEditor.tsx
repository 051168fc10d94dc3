import Form from "@rjsf/core";
import type { ErrorSchema } from "@rjsf/utils";
import { useMemo, useState, type ReactNode } from "react";
import { api, body, INSTANCE, instanceAt, INSTANCES, instancesAt, ProblemError, writeHeaders, type InstanceKey } from "../api/client";
import { queryClient } from "../api/queries";
import type { Diff, Json, JsonObject, K8sObject, Kind } from "../api/types";
import { writeIfUnchanged } from "../api/write";
import { Button } from "../components/Button";
import { Changes, UnifiedDiff } from "../components/Changes";
import { HealthIcon } from "../components/Health";
import { ProblemNote } from "../components/States";
import { YamlEditor } from "../components/YamlEditor";
import { compare, equal, getPath, isObject, mergePatch, setPath } from "../lib/paths";
import { count } from "../lib/text";
import { editable, parseYaml, toYaml, updateYaml } from "../lib/yaml";
import { Conflict } from "./Conflict";
import { fieldErrors, type LooseError } from "./errors";
import { formModel } from "./schema";
import { fields, templates, widgets } from "./theme";
import { interpretingValidator } from "./validator";

interface Props {
  kind: Kind;
  mode: "create" | "edit";
  /** Instance being edited. */
  target?: InstanceKey;
  /** Object that the user starts from. */
  base: JsonObject;
  /** The resourceVersion of `base`. */
  version?: string | undefined;
  /** Current state of the instance, to detect changes by other users. */
  current?: K8sObject | undefined;
  namespaces?: readonly string[];
  starts?: ReactNode;
  onDone: (object: K8sObject) => void;
}

/** Editor with form and YAML side by side, then a review of the changes, then the write. */
export function ObjectEditor({ kind, mode, target, base: firstBase, version: firstVersion, current, namespaces = [], starts, onDone }: Props) {
  const [base, setBase] = useState(firstBase);
  const [version, setVersion] = useState(firstVersion);
  const [text, setText] = useState(() => toYaml(firstBase));
  const [object, setObject] = useState<JsonObject>(firstBase);
  const [syntax, setSyntax] = useState<{ message: string; line: number }>();
  const [errors, setErrors] = useState<ErrorSchema>({});
  const [loose, setLoose] = useState<LooseError[]>([]);
  const [failure, setFailure] = useState<unknown>();
  const [review, setReview] = useState<Diff>();
  const [conflict, setConflict] = useState<K8sObject>();
  const [busy, setBusy] = useState(false);

  const model = useMemo(() => formModel(kind, object), [kind, object]);
  const problems = useMemo(() => (syntax ? [syntax] : []), [syntax]);
  const metadata = isObject(object.metadata) ? object.metadata : {};
  const name = typeof metadata.name === "string" ? metadata.name : "";
  const namespace = typeof metadata.namespace === "string" ? metadata.namespace : undefined;
  const dirty = mode === "create" || !equal(base, object);
  const movedOn = mode === "edit" && current !== undefined && !equal(editable(current), base);

  const fromForm = (next: JsonObject): void => {
    setObject(next);
    setText(updateYaml(text, next));
    setErrors({});
    setLoose([]);
  };
  const fromYaml = (typed: string): void => {
    setText(typed);
    const parsed = parseYaml(typed);
    setSyntax(parsed.error);
    if (!parsed.object) return;
    setObject(parsed.object);
    setErrors({});
    setLoose([]);
  };

  const send = (dryRun: boolean, ifMatch: string | undefined): Promise<unknown> => {
    const query = dryRun ? { dryRun: true } : {};
    const idempotencyKey = dryRun ? undefined : crypto.randomUUID();
    const header = writeHeaders(ifMatch, idempotencyKey);
    if (!target) {
      const path = instancesAt(kind.name, kind.namespaced ? namespace : undefined);
      return body(api.POST(INSTANCES, { params: { path, query, header }, body: object as K8sObject }));
    }
    const headers = { "Content-Type": "application/merge-patch+json" };
    return body(api.PATCH(INSTANCE, { params: { path: instanceAt(target), query, header }, body: mergePatch(base, object) as Record<string, Json>, headers }));
  };

  const submit = async (dryRun: boolean, then: (answer: unknown) => void): Promise<void> => {
    setBusy(true);
    setFailure(undefined);
    try {
      then(await writeIfUnchanged(version, (now) => equal(editable(now), base), (ifMatch) => send(dryRun, ifMatch)));
    } catch (error) {
      setReview(undefined);
      if (error instanceof ProblemError && error.status === 412 && error.problem.current) setConflict(error.problem.current);
      else if (error instanceof ProblemError && error.problem.causes.length > 0) {
        const sorted = fieldErrors(error.problem, model.root);
        setErrors(sorted.errors);
        setLoose(sorted.loose);
        setFailure(error);
      } else setFailure(error);
    } finally {
      setBusy(false);
    }
  };
  const askReview = (): void => void submit(true, (diff) => {
      setReview(diff as Diff);
    });
  const write = (): void =>
    void submit(false, (written) => {
      void queryClient.invalidateQueries();
      onDone(written as K8sObject);
    });

  const title = mode === "create" ? `New ${kind.kind}` : `Edit ${name}`;
  const blocked = syntax ? `The YAML has an error on line ${syntax.line}.` : mode === "create" && name === "" ? "Enter a name." : !dirty ? "No changes to review." : undefined;

  if (conflict) {
    return (
      <Conflict
        base={base}
        theirs={editable(conflict)}
        mine={object}
        onBack={() => { setConflict(undefined); }}
        onMerged={(merged) => {
          setBase(editable(conflict));
          setVersion(conflict.metadata.resourceVersion);
          setObject(merged);
          setText(updateYaml(text, merged));
          setConflict(undefined);
        }}
      />
    );
  }

  return (
    <>
      <header className="page-header">
        <div className="grow">
          <h1>{review ? `Review: ${title}` : title}</h1>
        </div>
        <ol className="steps" aria-label="Steps">
          {["Edit", "Review", mode === "create" ? "Create" : "Save"].map((step, i) => (
            <li key={step} aria-current={(review ? 1 : 0) === i ? "step" : undefined}>
              <span className="n">{i + 1}</span>
              {step}
            </li>
          ))}
        </ol>
      </header>
      {movedOn && !review && (
        <div className="note h-progressing" role="status">
          <HealthIcon status="progressing" />
          <p className="grow">Another user has changed {name} since you opened it.</p>
          <Button small onClick={() => { setConflict(current); }}>
            Compare and merge
          </Button>
        </div>
      )}
      {failure !== undefined && <ProblemNote error={failure} />}
      {loose.map((error) => (
        <p key={error.field} className="field-error">
          <HealthIcon status="failing" size={12} />
          {error.field}: {error.message}
        </p>
      ))}
      {review ? (
        <section className="panel" aria-labelledby="review">
          <header>
            <h2 id="review">{mode === "create" ? "Preview" : count(review.changes.length, "change")}</h2>
          </header>
          <div className="body stack">
            {mode === "edit" && <Changes changes={review.changes} />}
            {review.yaml && <UnifiedDiff text={review.yaml} label="Changes as YAML" />}
            <p className="muted small">Validated by a server-side dry run. Nothing has been saved yet.</p>
          </div>
        </section>
      ) : (
        <div className="editor-grid">
          <section className="panel" aria-label="Form">
            <header>
              <h2>Form</h2>
            </header>
            <div className="body stack">
              {syntax ? (
                <div className="note h-failing" role="alert">
                  <HealthIcon status="failing" />
                  <p>
                    The YAML has an error on line {syntax.line}: {syntax.message}. Fix the YAML to show the form again.
                  </p>
                </div>
              ) : (
                <>
                  {mode === "create" && (
                    <>
                      {starts}
                      <div className="field">
                        <label htmlFor="object-name">
                          Name <span className="required">required</span>
                        </label>
                        <input
                          id="object-name"
                          className="input"
                          value={name}
                          autoComplete="off"
                          spellCheck={false}
                          aria-describedby="object-name-help"
                          onChange={(change) => { fromForm({ ...object, metadata: { ...metadata, name: change.target.value } }); }}
                        />
                        <p id="object-name-help" className="field-help">
                          Lowercase letters, digits and hyphens.
                        </p>
                      </div>
                      {kind.namespaced && (
                        <div className="field">
                          <label htmlFor="object-namespace">Namespace</label>
                          <input
                            id="object-namespace"
                            className="input"
                            list="namespaces"
                            value={namespace ?? ""}
                            autoComplete="off"
                            onChange={(change) => { fromForm({ ...object, metadata: { ...metadata, namespace: change.target.value } }); }}
                          />
                          <datalist id="namespaces">
                            {namespaces.map((each) => (
                              <option key={each} value={each} />
                            ))}
                          </datalist>
                        </div>
                      )}
                    </>
                  )}
                  <Form
                    tagName="div"
                    schema={model.schema}
                    uiSchema={model.uiSchema}
                    formData={getPath(object, model.root)}
                    validator={interpretingValidator}
                    templates={templates}
                    widgets={widgets}
                    fields={fields}
                    extraErrors={errors}
                    extraErrorsBlockSubmit={false}
                    noHtml5Validate
                    showErrorList={false}
                    idPrefix="field"
                    experimental_defaultFormStateBehavior={{ emptyObjectFields: "skipDefaults", arrayMinItems: { populate: "never" } }}
                    onChange={({ formData }) => {
                      const next = setPath(object, model.root, formData as Json | undefined) as JsonObject;
                      if (compare(object, next).length > 0) fromForm(next);
                    }}
                  >
                    <></>
                  </Form>
                </>
              )}
            </div>
          </section>
          <section className="panel yaml-panel" aria-label="YAML">
            <header>
              <h2>YAML</h2>
              <span className="muted small">synced with the form</span>
            </header>
            <YamlEditor value={text} label="YAML" onChange={fromYaml} schema={kind.schema ?? undefined} problems={problems} />
          </section>
        </div>
      )}
      <footer className="sticky-footer">
        <span className="grow muted small">{review ? "" : (blocked ?? "")}</span>
        {review ? (
          <>
            <Button icon="back" onClick={() => { setReview(undefined); }}>
              Back to edit
            </Button>
            <Button variant="primary" disabled={busy} onClick={write}>
              {mode === "create" ? `Create ${kind.kind}` : "Save changes"}
            </Button>
          </>
        ) : (
          <Button variant="primary" disabled={busy} disabledReason={blocked} onClick={askReview}>
            Review
          </Button>
        )}
      </footer>
    </>
  );
}
