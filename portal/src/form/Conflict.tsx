import { useMemo, useState } from "react";
import type { Json, JsonObject } from "../api/types";
import { Button } from "../components/Button";
import { HealthIcon } from "../components/Health";
import { compare, getPath, parsePath, setPath } from "../lib/paths";
import { count, inline } from "../lib/text";

interface Row {
  path: string;
  base: Json | undefined;
  theirs: Json | undefined;
  mine: Json | undefined;
  by: "mine" | "theirs" | "both";
}

/** Returns the fields changed on either side, each with its value in `base`, `theirs` and `mine`. */
function rows(base: JsonObject, theirs: JsonObject, mine: JsonObject): Row[] {
  const ours = new Set(compare(base, mine).map((change) => change.path));
  const others = new Set(compare(base, theirs).map((change) => change.path));
  const overlaps = (path: string, set: ReadonlySet<string>): boolean => [...set].some((other) => other === path || other.startsWith(`${path}.`) || path.startsWith(`${other}.`));
  // Of two overlapping paths, the outer one represents both.
  const all = [...new Set([...ours, ...others])].sort().filter((path, _, list) => !list.some((other) => path.startsWith(`${other}.`)));
  return all.map((path) => {
    const at = parsePath(path);
    const inOurs = overlaps(path, ours);
    const inTheirs = overlaps(path, others);
    return { path, base: getPath(base, at), theirs: getPath(theirs, at), mine: getPath(mine, at), by: inOurs && inTheirs ? "both" : inOurs ? "mine" : "theirs" };
  });
}

/** Three-way merge after another user changed the object: both sides by field, a choice where both changed the same. */
export function Conflict({ base, theirs, mine, onBack, onMerged }: { base: JsonObject; theirs: JsonObject; mine: JsonObject; onBack: () => void; onMerged: (merged: JsonObject) => void }) {
  const table = useMemo(() => rows(base, theirs, mine), [base, theirs, mine]);
  const [chosen, setChosen] = useState<Record<string, "mine" | "theirs">>({});
  const open = table.filter((row) => row.by === "both" && chosen[row.path] === undefined).length;
  const merge = (): void => {
    let merged: Json | undefined = theirs;
    for (const row of table) {
      if (row.by === "mine" || chosen[row.path] === "mine") merged = setPath(merged, parsePath(row.path), row.mine);
    }
    onMerged(merged as JsonObject);
  };
  return (
    <>
      <header className="page-header">
        <div className="grow">
          <h1>Changed by another user</h1>
          <p className="muted">Nothing was saved. Choose which value to keep where both of you changed the same field.</p>
        </div>
      </header>
      <section className="panel">
        <table className="three-way">
          <caption className="sr-only">Fields changed on either side</caption>
          <thead>
            <tr>
              <th scope="col">Field</th>
              <th scope="col">Original</th>
              <th scope="col">Current</th>
              <th scope="col">Yours</th>
            </tr>
          </thead>
          <tbody>
            {table.map((row) => (
              <tr key={row.path} className={row.by === "both" ? "both" : undefined}>
                <th scope="row">
                  {row.path}
                  {row.by === "both" && (
                    <span className="chip h-progressing">
                      <HealthIcon status="failing" size={10} /> conflict
                    </span>
                  )}
                </th>
                <td>{inline(row.base)}</td>
                <td>
                  <Side row={row} side="theirs" value={row.theirs} chosen={chosen[row.path]} onChoose={() => { setChosen({ ...chosen, [row.path]: "theirs" }); }} />
                </td>
                <td>
                  <Side row={row} side="mine" value={row.mine} chosen={chosen[row.path]} onChoose={() => { setChosen({ ...chosen, [row.path]: "mine" }); }} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      <footer className="sticky-footer">
        <span className="grow muted small">{open > 0 ? `${count(open, "conflict")} to resolve.` : "Your changes will be applied on top of the current state."}</span>
        <Button onClick={onBack}>Back to edit</Button>
        <Button variant="primary" disabledReason={open > 0 ? "Choose a value for each conflicting field." : undefined} onClick={merge}>
          Continue with merge
        </Button>
      </footer>
    </>
  );
}

function Side({ row, side, value, chosen, onChoose }: { row: Row; side: "mine" | "theirs"; value: Json | undefined; chosen: "mine" | "theirs" | undefined; onChoose: () => void }) {
  if (row.by !== "both") return row.by === side ? <b>{inline(value)}</b> : <span className="muted">{inline(value)}</span>;
  return (
    <label className="check">
      <input type="radio" name={row.path} checked={chosen === side} onChange={onChoose} />
      <span>
        <span className="sr-only">{side === "mine" ? "Keep mine: " : "Keep current: "}</span>
        {inline(value)}
      </span>
    </label>
  );
}
