import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { request } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse } from "yaml";

/** A `steer dev` process with the portal, and its cluster. */
export interface Server {
  /** One-time sign-in link. */
  link: string;
  /** Origin of the portal. */
  origin: string;
  /** Kubeconfig file of the cluster. */
  kubeconfig: string;
  /** Calls the cluster's Kubernetes API as administrator. */
  kube: (method: string, path: string, body?: unknown) => Promise<KubeAnswer>;
  stop: () => Promise<void>;
}

/** A response of the cluster's Kubernetes API. */
export interface KubeAnswer {
  code: number;
  body: Record<string, unknown>;
}

interface Kubeconfig {
  clusters: { cluster: { server: string; "certificate-authority-data": string } }[];
  users: { user: { "client-certificate-data"?: string; "client-key-data"?: string; token?: string } }[];
}

const PROGRAM = process.env.STEER ?? "../target/debug/steer";

/** Starts `steer dev` on the example, or uses the server given by STEER_PORTAL_LINK and KUBECONFIG. */
export async function startServer(): Promise<Server> {
  const given = process.env.STEER_PORTAL_LINK;
  if (given) {
    const kubeconfig = process.env.KUBECONFIG ?? "";
    return { link: given, origin: new URL(given).origin, kubeconfig, kube: kubeClient(kubeconfig), stop: () => Promise.resolve() };
  }
  const folder = mkdtempSync(join(tmpdir(), "steer-portal-"));
  const kubeconfig = join(folder, "kubeconfig");
  const program = spawn(PROGRAM, ["--kubeconfig", kubeconfig, "dev", "../examples/minimart", "-o", "plain"], { stdio: ["ignore", "pipe", "inherit"] });
  const link = await portalLink(program);
  return {
    link,
    origin: new URL(link).origin,
    kubeconfig,
    kube: kubeClient(kubeconfig),
    stop: async () => {
      const ended = new Promise((resolve) => program.once("exit", resolve));
      program.kill("SIGINT");
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Starts `steer serve` on the cluster of a kubeconfig, with sign-in through an OpenID provider. */
export async function serveWithProvider(kubeconfig: string, issuer: string): Promise<{ origin: string; stop: () => void }> {
  const words = ["--kubeconfig", kubeconfig, "serve", "--listen", "127.0.0.1:0", "--oidc-issuer-url", issuer, "--oidc-client-id", "portal"];
  const program = spawn(PROGRAM, words, { stdio: ["ignore", "pipe", "inherit"] });
  const link = await portalLink(program);
  return { origin: new URL(link).origin, stop: () => program.kill("SIGINT") };
}

/** Starts an OpenID provider that accepts every user, with tokens unknown to any cluster. */
export async function startProvider(): Promise<{ issuer: string; stop: () => void }> {
  let nonce = "";
  const provider = createServer((asked, answer) => {
    const issuer = `http://${asked.headers.host ?? ""}`;
    const url = new URL(asked.url ?? "/", issuer);
    if (url.pathname === "/authorize") {
      nonce = url.searchParams.get("nonce") ?? "";
      const back = new URL(url.searchParams.get("redirect_uri") ?? issuer);
      back.searchParams.set("code", "1");
      back.searchParams.set("state", url.searchParams.get("state") ?? "");
      answer.writeHead(303, { Location: back.href }).end();
      return;
    }
    const claims = { iss: issuer, sub: "1", aud: "portal", nonce, exp: Math.floor(Date.now() / 1000) + 600 };
    const token = `e30.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.e30`;
    const description = { issuer, authorization_endpoint: `${issuer}/authorize`, token_endpoint: `${issuer}/token` };
    answer.end(JSON.stringify(url.pathname === "/token" ? { id_token: token, token_type: "Bearer" } : description));
  });
  await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
  const { port } = provider.address() as AddressInfo;
  return { issuer: `http://127.0.0.1:${String(port)}`, stop: () => provider.close() };
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
