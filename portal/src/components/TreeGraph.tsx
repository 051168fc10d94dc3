import { useNavigate } from "@tanstack/react-router";
import { hierarchy, tree, type HierarchyPointNode } from "d3-hierarchy";
import { useMemo } from "react";
import type { TreeNode } from "../api/types";
import { CLUSTER_SCOPED, instanceParams } from "../lib/links";
import { HEALTH_WORDS } from "../lib/text";
import { HealthIcon } from "./Health";

const NODE_WIDTH = 188;
const NODE_HEIGHT = 44;
const GAP_X = 44;
const GAP_Y = 12;
const LONGEST_NAME = 23;

/** Graph of owned objects, laid out from left to right. */
export function TreeGraph({ root }: { root: TreeNode }) {
  const navigate = useNavigate();
  const layout = useMemo(() => {
    const placed = tree<TreeNode>().nodeSize([NODE_HEIGHT + GAP_Y, NODE_WIDTH + GAP_X]).separation(() => 1)(hierarchy(root, (node) => node.children));
    const nodes = placed.descendants();
    const top = Math.min(...nodes.map((node) => node.x));
    const bottom = Math.max(...nodes.map((node) => node.x));
    const depth = Math.max(...nodes.map((node) => node.y));
    return { nodes, links: placed.links(), top, width: depth + NODE_WIDTH + 2, height: bottom - top + NODE_HEIGHT + 2 };
  }, [root]);
  const y = (node: HierarchyPointNode<TreeNode>): number => node.x - layout.top + 1;

  return (
    // Scrollable content must be reachable by keyboard.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className="graph" tabIndex={0} role="group" aria-label="Graph of owned objects">
      <svg width={layout.width} height={layout.height}>
        {layout.links.map((link) => {
          const x1 = link.source.y + NODE_WIDTH + 1;
          const y1 = y(link.source) + NODE_HEIGHT / 2;
          const x2 = link.target.y + 1;
          const y2 = y(link.target) + NODE_HEIGHT / 2;
          const middle = (x1 + x2) / 2;
          return <path key={`${link.source.data.ref.uid ?? ""} ${link.target.data.ref.uid ?? link.target.data.ref.name}`} className="edge" d={`M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`} />;
        })}
        {layout.nodes.map((node) => {
          const { ref, health, summary } = node.data;
          const box = (
            <g className="node">
              <rect width={NODE_WIDTH} height={NODE_HEIGHT} rx="8" />
              <g transform="translate(12 15)">
                <HealthIcon status={health.status} />
              </g>
              <text className="node-kind" x="34" y="17">
                {ref.kindName}
                {summary ? ` · ${clip(summary, 16)}` : ""}
              </text>
              <text className="node-name" x="34" y="33">
                {clip(ref.name, LONGEST_NAME)}
              </text>
              <title>{`${ref.kindName}/${ref.name}: ${HEALTH_WORDS[health.status]}${health.message ? `, ${health.message}` : ""}`}</title>
            </g>
          );
          const place = `translate(${node.y + 1} ${y(node)})`;
          const id = ref.uid ?? `${ref.kindName}/${ref.name}`;
          if (!ref.kind) {
            return (
              <g key={id} transform={place}>
                {box}
              </g>
            );
          }
          const params = instanceParams({ kind: ref.kind, namespace: ref.namespace ?? undefined, name: ref.name });
          return (
            <g key={id} transform={place}>
            <a
              href={`/kinds/${encodeURIComponent(params.kind)}/${encodeURIComponent(params.namespace || CLUSTER_SCOPED)}/${encodeURIComponent(params.name)}`}
              onClick={(click) => {
                if (click.metaKey || click.ctrlKey || click.shiftKey) return;
                click.preventDefault();
                void navigate({ to: "/kinds/$kind/$namespace/$name", params });
              }}
            >
              {box}
            </a>
            </g>
          );
        })}
      </svg>
    </div>
  );
}

function clip(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}
