import type { TreeNode } from "../api/types";
import { RefLink } from "../lib/links";
import { HealthIcon } from "./Health";

/** Indented list of owned objects, each with its health and a summary. */
export function TreeList({ root }: { root: TreeNode }) {
  return (
    <ul className="tree" aria-label="Owned objects">
      <Branch node={root} root />
    </ul>
  );
}

function Branch({ node, root = false }: { node: TreeNode; root?: boolean }) {
  const failing = node.health.status === "failing" && node.health.message !== "";
  return (
    <li>
      <div className="tree-row">
        <HealthIcon status={node.health.status} label />
        <span className="truncate">
          <span className="muted">{node.ref.kindName}</span> {root ? <b>{node.ref.name}</b> : <RefLink target={node.ref} className="strong-link" />}
        </span>
        <span className="grow" />
        <span className="muted small tabular truncate tree-summary">{node.summary}</span>
      </div>
      {failing && !root && <p className="tree-reason">{node.health.message}</p>}
      {node.children.length > 0 && (
        <ul>
          {node.children.map((child) => (
            <Branch key={child.ref.uid ?? `${child.ref.kindName}/${child.ref.name}`} node={child} />
          ))}
        </ul>
      )}
    </li>
  );
}
