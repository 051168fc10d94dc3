import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useState } from "react";
import { ProblemError } from "../api/client";
import { useLiveInstance, useLiveTree } from "../api/live";
import { accessQuery, historyQuery, instanceQuery, kindQuery, queryClient, statusQuery, treeQuery, type InstanceKey } from "../api/queries";
import type { Access, Action, Health, Json, K8sObject, Kind } from "../api/types";
import { ActionDialog } from "../components/ActionDialog";
import { Activity } from "../components/Activity";
import { Age } from "../components/Age";
import { Button } from "../components/Button";
import { Conditions } from "../components/Conditions";
import { DeleteDialog } from "../components/DeleteDialog";
import { HealthIcon, HealthLabel } from "../components/Health";
import { Icon } from "../components/Icon";
import { Logs } from "../components/Logs";
import { Menu } from "../components/Menu";
import { ScaleControl } from "../components/ScaleControl";
import { Empty, ProblemNote, ProblemPage, Skeleton } from "../components/States";
import { notify } from "../components/Toasts";
import { TreeList } from "../components/TreeList";
import { instanceParams, keyFromParams } from "../lib/links";
import { getPath, parsePath } from "../lib/paths";

const TreeGraph = lazy(async () => ({ default: (await import("../components/TreeGraph")).TreeGraph }));
const YamlView = lazy(async () => ({ default: (await import("../components/YamlView")).YamlView }));

interface Asked {
  action: Action;
  value?: Json;
}

/** Page of one instance: health, conditions, owned objects, activity and actions. */
export function InstancePage() {
  const target = keyFromParams(useParams({ from: "/kinds/$kind/$namespace/$name" }));
  const kind = useQuery(kindQuery(target.kind));
  const live = useLiveInstance(target);
  const fetched = useQuery(instanceQuery(target));
  const access = useQuery(accessQuery(target.kind, target.namespace, target.name));
  const object = live.item?.object ?? fetched.data;
  const version = object?.metadata.resourceVersion;
  const status = useQuery({ ...statusQuery(target, version), enabled: object !== undefined && !live.gone });
  const health = live.item?.health ?? status.data?.health;

  if (live.gone) return <Gone target={target} kind={kind.data} />;
  if (fetched.error && !object) {
    const missing = fetched.error instanceof ProblemError && fetched.error.status === 404;
    return (
      <div className="page">
        <Crumbs target={target} kind={kind.data} />
        <ProblemPage error={fetched.error} {...(missing ? {} : { onRetry: () => void fetched.refetch() })} />
      </div>
    );
  }
  return (
    <div className="page">
      <Crumbs target={target} kind={kind.data} />
      <Header target={target} kind={kind.data} object={object} health={health} access={access.data} />
      <section className="panel" aria-labelledby="conditions">
        <header>
          <h2 id="conditions">Conditions</h2>
          {status.data?.observedGeneration != null && status.data.generation != null && status.data.observedGeneration < status.data.generation && (
            <span className="chip h-progressing">latest change not yet observed by the operator</span>
          )}
        </header>
        {status.data ? (
          status.data.conditions.length > 0 ? (
            <Conditions conditions={status.data.conditions} />
          ) : (
            <div className="body muted">The status has no conditions.</div>
          )
        ) : (
          <div className="body">
            <Skeleton lines={2} />
          </div>
        )}
      </section>
      <div className="split">
        <Owned target={target} />
        <Activity target={target} access={access.data} seen={object} />
      </div>
      <Details target={target} object={object} access={access.data} />
    </div>
  );
}

function Crumbs({ target, kind }: { target: InstanceKey; kind: Kind | undefined }) {
  return (
    <nav className="crumbs" aria-label="Breadcrumb">
      <Link to="/kinds/$kind" params={{ kind: target.kind }}>
        {kind?.kind ?? target.kind}
      </Link>
      {target.namespace && (
        <>
          <span aria-hidden="true">/</span>
          <Link to="/kinds/$kind" params={{ kind: target.kind }} search={{ namespace: target.namespace }}>
            {target.namespace}
          </Link>
        </>
      )}
    </nav>
  );
}

interface HeaderProps {
  target: InstanceKey;
  kind: Kind | undefined;
  object: K8sObject | undefined;
  health: Health | undefined;
  access: Access | undefined;
}

function Header({ target, kind, object, health, access }: HeaderProps) {
  const navigate = useNavigate();
  const [asked, setAsked] = useState<Asked>();
  const [deleting, setDeleting] = useState(false);
  const [awaited, setAwaited] = useState<{ title: string; generation: number }>();

  // Notify when the cluster, not the request, has finished.
  const arrived = awaited !== undefined && health?.status === "ready" && (object?.metadata.generation ?? 0) >= awaited.generation;
  useEffect(() => {
    if (!arrived) return;
    const timer = window.setTimeout(() => {
      notify("ready", `${target.name} is ready.`);
      setAwaited(undefined);
    }, 1_000);
    return () => {
      window.clearTimeout(timer);
    };
  }, [arrived, target.name]);

  const refusal = (action: Action): string | undefined => {
    const allowed = access?.actions[action.name];
    return allowed && !allowed.allowed ? allowed.reason || `You do not have permission to ${action.title.toLowerCase()} this ${kind?.kind ?? "instance"}.` : undefined;
  };
  const actions = kind?.actions ?? [];
  const scale = actions.find((action) => action.name === "scale");
  const inMenu = new Set(["reconcile", "rollback", "scale"]);
  const buttons = actions.filter((action) => !inMenu.has(action.name) && isRelevant(action, object));
  const reconcile = actions.find((action) => action.name === "reconcile");
  const editDenied = access?.patch && !access.patch.allowed ? access.patch.reason || "You do not have permission to edit this instance." : undefined;
  const deleteDenied = access?.delete && !access.delete.allowed ? access.delete.reason || "You do not have permission to delete this instance." : undefined;
  const deletingNow = object?.metadata.deletionTimestamp !== undefined;

  return (
    <header className="instance-header">
      <div className="grow">
        <h1>{target.name}</h1>
        <div className="health-line" aria-live="polite">
          {health ? (
            <>
              {deletingNow ? <HealthLabel status="progressing" word="Deleting" /> : <HealthLabel status={health.status} />}
              {health.since && !deletingNow && (
                <span className="muted">
                  for <Age at={health.since} />
                </span>
              )}
              {health.status !== "failing" && (health.message || health.reason) && <span className="muted">{health.message || health.reason}</span>}
              {awaited && !arrived && <span className="chip h-progressing">{awaited.title} requested, in progress</span>}
            </>
          ) : (
            <span className="muted">&nbsp;</span>
          )}
        </div>
      </div>
      <div className="actions">
        {scale && object && (
          <ScaleControl
            current={asNumber(getPath(object, parsePath(scale.value ?? "spec.replicas")))}
            refusal={refusal(scale)}
            onAsk={(value) => { setAsked({ action: scale, value }); }}
          />
        )}
        {buttons.map((action) => (
          <Button key={action.name} icon={action.name === "pause" ? "pause" : action.name === "resume" ? "play" : "bolt"} disabledReason={refusal(action)} title={action.description} onClick={() => { setAsked({ action }); }}>
            {action.title}
          </Button>
        ))}
        {editDenied === undefined ? (
          <Link className="btn" to="/kinds/$kind/$namespace/$name/edit" params={instanceParams(target)}>
            <Icon name="edit" />
            Edit
          </Link>
        ) : (
          <Button icon="edit" disabledReason={editDenied}>
            Edit
          </Button>
        )}
        <Menu label="More actions" icon="more">
          {(close) => (
            <>
              {reconcile && (
                <button type="button" aria-disabled={refusal(reconcile) !== undefined} title={refusal(reconcile)} onClick={() => {
                  if (refusal(reconcile) !== undefined) return;
                  close();
                  setAsked({ action: reconcile });
                }}>
                  <Icon name="refresh" /> Reconcile now
                </button>
              )}
              <Link to="/kinds/$kind/$namespace/$name/history" params={instanceParams(target)}>
                <Icon name="history" /> History
              </Link>
              <Link to="/kinds/$kind/new" params={{ kind: target.kind }} search={{ namespace: target.namespace, copy: target.name }}>
                <Icon name="plus" /> Duplicate
              </Link>
              <hr />
              <button
                type="button"
                className="danger"
                aria-disabled={deleteDenied !== undefined}
                title={deleteDenied}
                onClick={() => {
                  if (deleteDenied !== undefined) return;
                  close();
                  setDeleting(true);
                }}
              >
                <Icon name="trash" /> Delete
              </button>
              {deleteDenied && <div className="info">{deleteDenied}</div>}
            </>
          )}
        </Menu>
      </div>
      {health?.status === "failing" && (
        <div className="note h-failing header-note">
          <HealthIcon status="failing" />
          <p>
            {health.reason && <b>{health.reason}: </b>}
            {health.message || "The status has no message."}
          </p>
        </div>
      )}
      {asked && (
        <ActionDialog
          target={target}
          action={asked.action}
          {...(asked.value === undefined ? {} : { value: asked.value })}
          seen={object}
          onClose={() => { setAsked(undefined); }}
          onDone={(changed) => {
            setAwaited({ title: asked.action.title, generation: changed.metadata.generation ?? 0 });
            setAsked(undefined);
          }}
        />
      )}
      {deleting && (
        <DeleteDialog
          target={target}
          kindName={kind?.kind ?? target.kind}
          seen={object}
          onClose={() => { setDeleting(false); }}
          onDone={() => {
            setDeleting(false);
            notify("progressing", `Deletion of ${target.name} requested.`);
            void navigate({ to: "/kinds/$kind", params: { kind: target.kind } });
          }}
        />
      )}
    </header>
  );
}

/** Returns whether to show an action: of pause and resume, only the one that changes something. */
function isRelevant(action: Action, object: K8sObject | undefined): boolean {
  if (action.name !== "pause" && action.name !== "resume") return true;
  const paths = action.value ? [action.value] : ["spec.paused", "spec.suspend"];
  const paused = paths.some((path) => getPath(object, parsePath(path)) === true);
  return paused === (action.name === "resume");
}

function asNumber(value: Json | undefined): number | undefined {
  return typeof value === "number" ? value : undefined;
}

function Owned({ target }: { target: InstanceKey }) {
  useLiveTree(target);
  const tree = useQuery(treeQuery(target));
  const [view, setView] = useState<"list" | "graph">("list");
  return (
    <section className="panel" aria-labelledby="tree">
      <header>
        <h2 id="tree">Owned objects</h2>
        <div className="segments" role="group" aria-label="View">
          {(["list", "graph"] as const).map((each) => (
            <button key={each} type="button" aria-pressed={view === each} onClick={() => { setView(each); }}>
              {each === "list" ? "List" : "Graph"}
            </button>
          ))}
        </div>
      </header>
      {tree.error && !tree.data && (
        <div className="body">
          <ProblemNote error={tree.error} onRetry={() => void tree.refetch()} />
        </div>
      )}
      {tree.data ? (
        view === "list" ? (
          <TreeList root={tree.data.root} />
        ) : (
          <Suspense fallback={<div className="body"><Skeleton lines={5} /></div>}>
            <TreeGraph root={tree.data.root} />
          </Suspense>
        )
      ) : (
        !tree.error && (
          <div className="body">
            <Skeleton lines={5} />
          </div>
        )
      )}
      {tree.data && tree.data.denied.length > 0 && (
        <p className="body muted small">Not shown, because you do not have permission to list them: {tree.data.denied.join(", ")}.</p>
      )}
    </section>
  );
}

function Details({ target, object, access }: { target: InstanceKey; object: K8sObject | undefined; access: Access | undefined }) {
  const [view, setView] = useState<"yaml" | "log">();
  const logDenied = access?.logs && !access.logs.allowed ? access.logs.reason || "You do not have permission to read logs." : undefined;
  return (
    <section className="panel" aria-labelledby="details">
      <header>
        <h2 id="details">YAML and logs</h2>
        <div className="segments" role="group" aria-label="Details">
          <button type="button" aria-pressed={view === "yaml"} onClick={() => { setView(view === "yaml" ? undefined : "yaml"); }}>
            YAML
          </button>
          <button type="button" aria-pressed={view === "log"} aria-disabled={logDenied !== undefined} title={logDenied} onClick={() => {
            if (logDenied === undefined) setView(view === "log" ? undefined : "log");
          }}>
            Logs
          </button>
        </div>
      </header>
      {view === "yaml" && object && (
        <Suspense fallback={<div className="body"><Skeleton lines={8} /></div>}>
          <YamlView object={object} />
        </Suspense>
      )}
      {view === "log" && <Logs target={target} />}
    </section>
  );
}

function Gone({ target, kind }: { target: InstanceKey; kind: Kind | undefined }) {
  useEffect(() => {
    void queryClient.invalidateQueries({ queryKey: ["overview"] });
    queryClient.removeQueries(historyQuery(target));
    queryClient.removeQueries(instanceQuery(target));
  }, [target]);
  return (
    <div className="page">
      <Crumbs target={target} kind={kind} />
      <div className="panel">
        <Empty icon="trash" title={`${target.name} was deleted`}>
          <Link className="btn" to="/kinds/$kind" params={{ kind: target.kind }}>
            Back to {kind?.plural ?? "instances"}
          </Link>
        </Empty>
      </div>
    </div>
  );
}
