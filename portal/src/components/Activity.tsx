import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { eventsQuery, historyQuery, kindQuery, queryClient, type InstanceKey } from "../api/queries";
import type { Access, ClusterEvent, K8sObject, Revision } from "../api/types";
import { instanceParams } from "../lib/links";
import { changeWords, refName } from "../lib/text";
import { ActionDialog } from "./ActionDialog";
import { Age } from "./Age";
import { HealthIcon } from "./Health";
import { ProblemNote, Skeleton } from "./States";

type Entry = { at: string; revision: Revision } | { at: string; event: ClusterEvent };

/** User changes and operator events in one list, newest first. */
export function Activity({ target, access, seen }: { target: InstanceKey; access: Access | undefined; seen: K8sObject | undefined }) {
  const history = useQuery({ ...historyQuery(target), enabled: access?.history.allowed !== false });
  const events = useQuery(eventsQuery(target));
  const kind = useQuery(kindQuery(target.kind));
  const [restore, setRestore] = useState<number>();
  const rollback = kind.data?.actions.find((action) => action.name === "rollback");
  const mayRollBack = access?.actions.rollback?.allowed !== false && rollback !== undefined;

  useEffect(() => {
    void queryClient.invalidateQueries({ queryKey: historyQuery(target).queryKey });
    void queryClient.invalidateQueries({ queryKey: eventsQuery(target).queryKey });
    // A new version of the object brings new history and events.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [seen?.metadata.resourceVersion]);

  const entries: Entry[] = [
    ...(history.data ?? []).map((revision) => ({ at: revision.at, revision })),
    ...(events.data ?? []).map((event) => ({ at: event.lastSeen ?? event.firstSeen ?? "", event })),
  ].sort((a, b) => b.at.localeCompare(a.at));

  return (
    <section className="panel" aria-labelledby="activity">
      <header>
        <h2 id="activity">Activity</h2>
        <Link className="btn quiet s" to="/kinds/$kind/$namespace/$name/history" params={instanceParams(target)}>
          Compare revisions
        </Link>
      </header>
      {events.error && !events.data && (
        <div className="body">
          <ProblemNote error={events.error} />
        </div>
      )}
      {events.isPending && (
        <div className="body">
          <Skeleton lines={5} />
        </div>
      )}
      {!events.isPending && entries.length === 0 && <div className="body muted">No events or changes yet.</div>}
      {/* Scrollable content must be reachable by keyboard. */}
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
      <ul className="activity scroll-area" tabIndex={0} aria-label="Activity, newest first">
        {entries.map((entry) =>
          "revision" in entry ? (
            <li key={`revision ${entry.revision.revision}`}>
              <span className="muted small">
                <Age at={entry.at} />
              </span>
              <div>
                <p>
                  <b>{entry.revision.by || "unknown user"}</b>{" "}
                  {entry.revision.changes.length > 0 ? entry.revision.changes.slice(0, 3).map(changeWords).join(", ") : "created the instance"}
                  {entry.revision.changes.length > 3 && <span className="muted"> and {entry.revision.changes.length - 3} more</span>}
                </p>
                <p className="links">
                  <span className="muted">revision {entry.revision.revision}</span>
                  {entry.revision.current ? (
                    <span className="muted">current</span>
                  ) : (
                    <>
                      <Link to="/kinds/$kind/$namespace/$name/history" params={instanceParams(target)} search={{ from: entry.revision.revision }}>
                        Compare
                      </Link>
                      {mayRollBack && (
                        <button type="button" className="link-button" onClick={() => { setRestore(entry.revision.revision); }}>
                          Roll back to this revision
                        </button>
                      )}
                    </>
                  )}
                </p>
              </div>
            </li>
          ) : (
            <li key={`event ${entry.event.ref.kindName}/${entry.event.ref.name}/${entry.event.reason}/${entry.event.message}/${entry.at}`}>
              <span className="muted small">
                <Age at={entry.at} />
              </span>
              <div>
                <p>
                  {entry.event.type === "Warning" && <HealthIcon status="failing" size={12} label />} <b>{entry.event.reason}</b> {entry.event.message}
                </p>
                <p className="muted small">
                  {refName(entry.event.ref)}
                  {entry.event.source ? ` · ${entry.event.source}` : ""}
                  {entry.event.count > 1 ? ` · ${entry.event.count} times` : ""}
                </p>
              </div>
            </li>
          ),
        )}
      </ul>
      {restore !== undefined && rollback && (
        <ActionDialog
          target={target}
          action={{ ...rollback, title: "Roll back" }}
          value={restore}
          seen={seen}
          onClose={() => { setRestore(undefined); }}
          onDone={() => { setRestore(undefined); }}
        />
      )}
    </section>
  );
}
