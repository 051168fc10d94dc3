import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse } from "yaml";

/** A `steer dev` with the portal, and its cluster. */
export interface Server {
  /** The link that signs in once. */
  link: string;
  /** The address of the portal. */
  origin: string;
  /** Calls the cluster's own API as administrator. */
  kube: (method: string, path: string, body?: unknown) => Promise<KubeAnswer>;
  stop: () => Promise<void>;
}

/** An answer of the cluster's own API. */
export interface KubeAnswer {
  code: number;
  body: Record<string, unknown>;
}

interface Kubeconfig {
  clusters: { cluster: { server: string; "certificate-authority-data": string } }[];
  users: { user: { "client-certificate-data"?: string; "client-key-data"?: string; token?: string } }[];
}

const PROGRAM = process.env.STEER ?? "../target/debug/steer";

/** Starts `steer dev` on the example, or uses the server that STEER_PORTAL_LINK and KUBECONFIG name. */
export async function startServer(): Promise<Server> {
  const given = process.env.STEER_PORTAL_LINK;
  if (given) {
    const kubeconfig = process.env.KUBECONFIG ?? "";
    return { link: given, origin: new URL(given).origin, kube: kubeClient(kubeconfig), stop: () => Promise.resolve() };
  }
  const folder = mkdtempSync(join(tmpdir(), "steer-portal-"));
  const kubeconfig = join(folder, "kubeconfig");
  const program = spawn(PROGRAM, ["--kubeconfig", kubeconfig, "dev", "../examples/minimart", "-o", "plain"], { stdio: ["ignore", "pipe", "inherit"] });
  const link = await portalLink(program);
  return {
    link,
    origin: new URL(link).origin,
    kube: kubeClient(kubeconfig),
    stop: async () => {
      const ended = new Promise((resolve) => program.once("exit", resolve));
      program.kill("SIGINT");
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function portalLink(program: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let output = "";
    program.stdout?.on("data", (chunk: Buffer) => {
      output += chunk.toString();
      const match = /(https?:\/\/\S+[?&]once=\S+)/.exec(output);
      if (match?.[1]) resolve(match[1]);
    });
    program.once("error", reject);
    program.once("exit", (code) => {
      reject(new Error(`steer dev ended with ${String(code)} before it printed the portal's link:\n${output}`));
    });
  });
}

function kubeClient(file: string): Server["kube"] {
  return (method, path, body) => {
    const config = parse(readFileSync(file, "utf8")) as Kubeconfig;
    const cluster = config.clusters[0]?.cluster;
    const user = config.users[0]?.user;
    if (!cluster || !user) throw new Error(`${file} names no cluster or no user`);
    const decoded = (text: string | undefined): Buffer | undefined => (text ? Buffer.from(text, "base64") : undefined);
    return new Promise((resolve, reject) => {
      const call = request(
        new URL(path, cluster.server),
        {
          method,
          ca: decoded(cluster["certificate-authority-data"]),
          cert: decoded(user["client-certificate-data"]),
          key: decoded(user["client-key-data"]),
          headers: { "Content-Type": method === "PATCH" ? "application/merge-patch+json" : "application/json", ...(user.token ? { Authorization: `Bearer ${user.token}` } : {}) },
        },
        (response) => {
          let text = "";
          response.on("data", (chunk: Buffer) => (text += chunk.toString()));
          response.on("end", () => {
            resolve({ code: response.statusCode ?? 0, body: JSON.parse(text || "{}") as Record<string, unknown> });
          });
        },
      );
      call.on("error", reject);
      call.end(body === undefined ? undefined : JSON.stringify(body));
    });
  };
}
