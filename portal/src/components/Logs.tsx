import { useEffect, useRef, useState } from "react";
import { address, INSTANCE, instanceAt, type InstanceKey } from "../api/client";
import { openStream } from "../api/stream";

interface Line {
  pod: string;
  container: string;
  text: string;
}

const KEPT = 1_000;

/** Log of all pods of an instance, followed live. */
export function Logs({ target }: { target: InstanceKey }) {
  const { kind, namespace, name } = target;
  const [lines, setLines] = useState<readonly Line[]>([]);
  const box = useRef<HTMLPreElement>(null);
  useEffect(() => {
    setLines([]);
    return openStream(() => address(`${INSTANCE}/logs`, instanceAt({ kind, namespace, name }), { tail: 200, follow: true }), {
      events: {
        line: (data) => {
          setLines((before) => [...before.slice(-KEPT), data as Line]);
        },
      },
    });
  }, [kind, namespace, name]);
  useEffect(() => {
    box.current?.scrollTo({ top: box.current.scrollHeight });
  }, [lines]);
  return (
    // Scrollable text must be reachable by keyboard.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <pre className="log" tabIndex={0} aria-label="Log" ref={box}>
      {lines.length === 0 && <span className="muted">No log output yet.</span>}
      {lines.map((line, i) => (
        <span key={i}>
          <span className="muted">{line.pod}</span> {line.text}
          {"\n"}
        </span>
      ))}
    </pre>
  );
}
