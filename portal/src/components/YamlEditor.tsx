import { autocompletion, closeBrackets, completionKeymap, type Completion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { diagnosticCount, lintGutter, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "react";
import type { JsonObject } from "../api/types";
import { fieldsAt, type Suggestion } from "../lib/completion";

const theme = EditorView.theme({
  "&": { fontSize: "12px", color: "var(--text)", backgroundColor: "var(--surface)", minHeight: "inherit" },
  ".cm-content": { fontFamily: "var(--mono)", padding: "8px 0", caretColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--text-3)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--surface-2)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground": { backgroundColor: "var(--accent-soft)" },
  ".cm-tooltip": { backgroundColor: "var(--surface)", border: "1px solid var(--line-strong)", borderRadius: "6px", boxShadow: "var(--shadow-2)", color: "var(--text)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent-soft)", color: "var(--text)" },
  ".cm-completionInfo": { maxWidth: "320px", padding: "8px", fontFamily: "var(--font)" },
});

const highlighting = HighlightStyle.define([
  { tag: [tags.definition(tags.propertyName), tags.propertyName], color: "var(--accent-text)" },
  { tag: [tags.comment, tags.lineComment], color: "var(--text-3)" },
  { tag: [tags.string, tags.content, tags.attributeValue], color: "var(--text)" },
  { tag: [tags.punctuation, tags.separator, tags.meta], color: "var(--text-2)" },
]);

interface Props {
  value: string;
  label: string;
  onChange?: (text: string) => void;
  readOnly?: boolean;
  schema?: JsonObject | undefined;
  problems?: { line: number; message: string }[];
}

/** A YAML editor with completion from the kind's schema. */
export function YamlEditor({ value, label, onChange, readOnly = false, schema, problems }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const latest = useRef({ onChange, schema });
  latest.current = { onChange, schema };

  useEffect(() => {
    if (!host.current) return;
    const nonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? "";
    const editor = new EditorView({
      parent: host.current,
      state: EditorState.create({
        doc: value,
        extensions: [
          EditorView.cspNonce.of(nonce),
          lineNumbers(),
          history(),
          drawSelection(),
          indentOnInput(),
          indentUnit.of("  "),
          closeBrackets(),
          highlightActiveLine(),
          yaml(),
          syntaxHighlighting(highlighting),
          theme,
          autocompletion({ override: [(context) => complete(context, latest.current.schema)] }),
          lintGutter(),
          EditorState.readOnly.of(readOnly),
          EditorView.editable.of(!readOnly),
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": label, ...(readOnly ? { tabindex: "0", role: "textbox", "aria-readonly": "true", "aria-multiline": "true" } : {}) }),
          keymap.of([...completionKeymap, ...defaultKeymap, ...historyKeymap, indentWithTab]),
          EditorView.updateListener.of((update) => {
            if (update.docChanged && !update.transactions.some((change) => change.isUserEvent("sync"))) latest.current.onChange?.(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = editor;
    return () => {
      editor.destroy();
    };
    // The editor is created once; the effect below writes new values into it.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [readOnly, label]);

  useEffect(() => {
    const editor = view.current;
    if (!editor) return;
    const old = editor.state.doc.toString();
    if (old === value) return;
    // Replace only the part that differs, to keep cursor and scroll position.
    let start = 0;
    while (start < old.length && start < value.length && old[start] === value[start]) start++;
    let end = 0;
    while (end < old.length - start && end < value.length - start && old[old.length - 1 - end] === value[value.length - 1 - end]) end++;
    editor.dispatch({ changes: { from: start, to: old.length - end, insert: value.slice(start, value.length - end) }, userEvent: "sync" });
  }, [value]);

  useEffect(() => {
    const editor = view.current;
    const found = problems ?? [];
    if (!editor || (found.length === 0 && diagnosticCount(editor.state) === 0)) return;
    const diagnostics = found.map((problem): Diagnostic => {
      const line = editor.state.doc.line(Math.min(Math.max(problem.line, 1), editor.state.doc.lines));
      return { from: line.from, to: line.to, severity: "error", message: problem.message };
    });
    editor.dispatch(setDiagnostics(editor.state, diagnostics));
  }, [problems, value]);

  return <div className="codemirror" ref={host} />;
}

function complete(context: CompletionContext, schema: JsonObject | undefined): CompletionResult | null {
  if (!schema) return null;
  const word = context.matchBefore(/[\w./-]*/);
  if (!word || (word.from === word.to && !context.explicit)) return null;
  const lines = context.state.doc.sliceString(0, word.from).split("\n");
  const suggestions = fieldsAt(schema, lines);
  if (suggestions.length === 0) return null;
  return { from: word.from, options: suggestions.map(toCompletion), validFor: /^[\w./-]*$/ };
}

function toCompletion(suggestion: Suggestion): Completion {
  return {
    label: suggestion.text,
    apply: suggestion.isField ? `${suggestion.text}:${suggestion.isContainer ? "" : " "}` : suggestion.text,
    type: suggestion.isField ? "property" : "enum",
    ...(suggestion.detail ? { detail: suggestion.detail } : {}),
    ...(suggestion.info ? { info: suggestion.info } : {}),
  };
}
