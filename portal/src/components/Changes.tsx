import type { Change } from "../api/types";
import { inline } from "../lib/text";

/** List of changed fields, with values before and after. */
export function Changes({ changes, empty = "No changes." }: { changes: readonly Change[]; empty?: string }) {
  if (changes.length === 0) return <p className="muted">{empty}</p>;
  return (
    <dl className="changes" aria-label="Changes by field">
      {changes.map((change) => (
        <div key={`${change.op} ${change.path}`}>
          <dt>{change.path}</dt>
          <dd>
            {change.op !== "add" && <del>{inline(change.before)}</del>}
            {change.op !== "add" && (
              <span className="arrow">
                <span aria-hidden="true">→</span>
                <span className="sr-only"> becomes </span>
              </span>
            )}
            {change.op === "remove" ? <ins>removed</ins> : <ins>{inline(change.after)}</ins>}
            {change.op === "add" && <span className="muted"> added</span>}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** A unified diff, line by line. */
export function UnifiedDiff({ text, label }: { text: string; label: string }) {
  const lines = text.replace(/\n$/, "").split("\n");
  return (
    // Scrollable text must be reachable by keyboard.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <pre className="diff" tabIndex={0} aria-label={label}>
      {lines.map((line, i) => (
        <span key={i} className={lineClass(line)}>
          {line || " "}
        </span>
      ))}
    </pre>
  );
}

function lineClass(line: string): string | undefined {
  if (line.startsWith("@@") || line.startsWith("---") || line.startsWith("+++")) return "hunk";
  if (line.startsWith("+")) return "add";
  if (line.startsWith("-")) return "remove";
  return undefined;
}
