import AxeBuilder from "@axe-core/playwright";
import { expect, test, type BrowserContext, type Page } from "@playwright/test";
import { serveWithProvider, startProvider, startServer, type Server } from "./server";

const KIND = "minimarts.charts.samutup.com";
const SHOP = `/apis/charts.samutup.com/v1alpha1/namespaces/default/minimarts/shop`;

let server: Server;
let context: BrowserContext;
let page: Page;
const foreign: string[] = [];
const complaints: string[] = [];

test.describe.configure({ mode: "serial" });

test.beforeAll(async ({ browser }) => {
  server = await startServer();
  context = await browser.newContext();
  page = await context.newPage();
  context.on("request", (request) => {
    if (!request.url().startsWith(server.origin) && !request.url().startsWith("data:")) foreign.push(request.url());
  });
  page.on("console", (message) => {
    if (/content security policy/i.test(message.text())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
});

test.afterAll(async () => {
  await context.close();
  await server.stop();
});

/** Fails on serious axe violations, in both themes. */
async function expectAccessible(what: string): Promise<void> {
  for (const theme of ["light", "dark"]) {
    await page.evaluate(async (name) => {
      document.documentElement.dataset.theme = name;
      // Colours change gradually: wait for the transitions, so that axe checks the final colours.
      const transitions = document.getAnimations().filter((animation) => animation instanceof CSSTransition);
      await Promise.allSettled(transitions.map((transition) => transition.finished));
    }, theme);
    const { violations } = await new AxeBuilder({ page }).analyze();
    const serious = violations.filter((violation) => violation.impact === "serious" || violation.impact === "critical");
    const found = serious.flatMap((violation) => violation.nodes.map((node) => `${violation.id}: ${node.html} ${node.failureSummary ?? ""}`));
    expect(found, `${what}, ${theme}`).toEqual([]);
  }
  await page.evaluate(() => (document.documentElement.dataset.theme = "light"));
}

async function openShop(): Promise<void> {
  await page.goto(`${server.origin}/kinds/${KIND}/default/shop`);
  await expect(page.getByRole("heading", { name: "shop", exact: true })).toBeVisible();
}

/** Locates the health of the instance whose page is open. */
function health(word: string) {
  return page.locator(".instance-header .health", { hasText: word });
}

async function replicas(): Promise<unknown> {
  const { body } = await server.kube("GET", SHOP);
  return (body.spec as { replicaCount?: number }).replicaCount;
}

test("a page without a session asks to sign in", async () => {
  await page.goto(`${server.origin}/kinds/${KIND}`);
  await expect(page.getByRole("heading", { name: "Sign in to Steersman" })).toBeVisible();
  await expectAccessible("sign-in");
});

test("the printed sign-in link works only once", async ({ browser }) => {
  await page.goto(server.link);
  await expect(page.getByRole("heading", { name: "Overview" })).toBeVisible();
  await expect(page.getByRole("link", { name: "Minimart", exact: true }).first()).toBeVisible();
  const other = await browser.newContext();
  const second = await other.newPage();
  await second.goto(server.link);
  await expect(second.getByRole("heading", { name: "Overview" })).toHaveCount(0);
  await other.close();
  await expectAccessible("overview");
});

test("the table shows the sample becoming ready", async () => {
  await page.goto(`${server.origin}/kinds/${KIND}`);
  const row = page.getByRole("row", { name: /minimart-sample/ });
  await expect(row).toContainText("Ready");
  await expectAccessible("instances");
});

test("a Minimart created by form becomes ready without a page reload", async () => {
  await page.getByRole("link", { name: "New Minimart" }).click();
  await expect(page.getByRole("heading", { name: "New Minimart" })).toBeVisible();
  await page.getByLabel("Start from").selectOption({ label: "Copy of minimart-sample" });
  await page.getByRole("textbox", { name: /^Name/ }).first().fill("shop");
  await page.getByLabel("Replica count").fill("2");
  // The YAML is updated from the form.
  await expect(page.locator(".cm-content")).toContainText("replicaCount: 2");
  await expectAccessible("create");
  await page.getByRole("button", { name: "Review" }).click();
  await expect(page.getByText("Validated by a server-side dry run")).toBeVisible();
  await expect(page.locator(".diff")).toContainText("+  replicaCount: 2");
  expect((await server.kube("GET", SHOP)).code).toBe(404);
  await page.evaluate(() => {
    document.body.setAttribute("data-loaded-once", "yes");
  });
  await page.getByRole("button", { name: "Create Minimart" }).click();
  await expect(page.getByRole("heading", { name: "shop", exact: true })).toBeVisible();
  await expect(health("Ready")).toBeVisible();
  await expect(page.locator(".tree-row", { hasText: "Deployment" })).toContainText("2/2");
  await expect(page.locator("body[data-loaded-once]")).toHaveCount(1);
  await expectAccessible("instance");
});

test("the scale button previews the changes, then scales the instance", async () => {
  await page.getByRole("button", { name: "Increase replicas" }).click();
  await page.getByRole("button", { name: "Scale to 3" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog).toContainText("spec.replicaCount");
  await expect(dialog.locator("del")).toHaveText("2");
  await expect(dialog.locator("ins")).toHaveText("3");
  expect(await replicas()).toBe(2);
  await expectAccessible("action");
  await dialog.getByRole("button", { name: "Scale" }).click();
  await expect(page.locator(".tree-row", { hasText: "Deployment" })).toContainText("3/3");
  await expect(health("Ready")).toBeVisible();
  expect(await replicas()).toBe(3);
});

test("an edit is reviewed before it is saved", async () => {
  await page.getByRole("link", { name: "Edit" }).click();
  await expect(page.getByRole("button", { name: "Review" })).toHaveAttribute("aria-disabled", "true");
  await page.getByLabel("Currency").fill("CHF");
  await expect(page.locator(".cm-content")).toContainText("currency: CHF");
  await page.getByRole("button", { name: "Review" }).click();
  await expect(page.locator(".changes")).toContainText("spec.shop.currency");
  await expectAccessible("review");
  await page.getByRole("button", { name: "Save changes" }).click();
  await expect(page.getByRole("heading", { name: "shop", exact: true })).toBeVisible();
  await expect(page.locator(".activity")).toContainText("shop.currency EUR → CHF");
});

test("typing YAML updates the form", async () => {
  await page.getByRole("link", { name: "Edit" }).click();
  const yaml = page.locator(".cm-content");
  await yaml.click();
  await page.keyboard.press("ControlOrMeta+End");
  await page.keyboard.type("broken: a: b");
  await expect(page.getByRole("alert")).toContainText("The YAML has an error on line");
  await page.keyboard.press("Shift+Home");
  await page.keyboard.press("Backspace");
  await expect(page.getByLabel("Replica count")).toHaveValue("3");
  await page.locator(".cm-line", { hasText: "replicaCount: 3" }).click();
  await page.keyboard.press("End");
  await page.keyboard.press("Backspace");
  await page.keyboard.type("7");
  await expect(page.getByLabel("Replica count")).toHaveValue("7");
});

test("a conflict is shown as a three-way diff and merged", async () => {
  await openShop();
  await page.getByRole("link", { name: "Edit" }).click();
  await page.getByLabel("Replica count").fill("5");
  const changed = await server.kube("PATCH", SHOP, { spec: { replicaCount: 4, shop: { name: "Harbour shop" } } });
  expect(changed.code).toBe(200);
  await expect(page.getByText("Another user has changed shop")).toBeVisible();
  await page.getByRole("button", { name: "Review" }).click();
  await expect(page.getByRole("heading", { name: "Changed by another user" })).toBeVisible();
  const row = page.getByRole("row", { name: /spec\.replicaCount/ });
  await expect(row).toContainText("3");
  await expect(row).toContainText("4");
  await expect(row).toContainText("5");
  await expectAccessible("conflict");
  await row.getByRole("radio", { name: /Keep mine/ }).check();
  await page.getByRole("button", { name: "Continue with merge" }).click();
  await page.getByRole("button", { name: "Review" }).click();
  await expect(page.locator(".changes")).toContainText("spec.replicaCount");
  await expect(page.locator(".changes")).not.toContainText("spec.shop.name");
  await page.getByRole("button", { name: "Save changes" }).click();
  await expect(page.locator(".tree-row", { hasText: "Deployment" })).toContainText("5/5");
  const { body } = await server.kube("GET", SHOP);
  expect((body.spec as { shop: { name: string } }).shop.name).toBe("Harbour shop");
});

test("revisions are compared and one is restored by a rollback", async () => {
  await openShop();
  await page.getByRole("link", { name: "Compare revisions" }).click();
  await expect(page.getByRole("heading", { name: "History of shop" })).toBeVisible();
  const rows = page.locator(".revision-table tbody tr");
  const first = rows.last();
  await first.getByRole("radio", { name: /Compare from/ }).check();
  await expect(page.locator(".changes")).toContainText("spec.shop.currency");
  await expectAccessible("history");
  await first.getByRole("button", { name: "Roll back" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog).toContainText("spec.replicaCount");
  await dialog.getByRole("button", { name: "Roll back" }).click();
  await expect(page.getByRole("heading", { name: "shop", exact: true })).toBeVisible();
  await expect(page.locator(".tree-row", { hasText: "Deployment" })).toContainText("2/2");
  expect(await replicas()).toBe(2);
});

test("the history reports a change made elsewhere", async () => {
  await server.kube("PATCH", SHOP, { spec: { shop: { currency: "GBP" } } });
  await page.goto(`${server.origin}/kinds/${KIND}/default/shop/history`);
  await expect(page.getByText("was changed elsewhere since revision")).toBeVisible();
  await expect(page.locator(".changes")).toBeVisible();
});

test("a viewer has read access, with a reason on each disabled action", async ({ browser }) => {
  const rules = [{ apiGroups: ["charts.samutup.com"], resources: ["minimarts"], verbs: ["get", "list", "watch"] }];
  await server.kube("POST", "/api/v1/namespaces/default/serviceaccounts", { metadata: { name: "viewer" } });
  await server.kube("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", { metadata: { name: "viewer" }, rules });
  await server.kube("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
    metadata: { name: "viewer" },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "viewer" },
    subjects: [{ kind: "ServiceAccount", name: "viewer", namespace: "default" }],
  });
  const { body } = await server.kube("POST", "/api/v1/namespaces/default/serviceaccounts/viewer/token", { spec: {} });
  const { token } = body.status as { token: string };
  const other = await browser.newContext();
  const viewer = await other.newPage();
  await viewer.goto(`${server.origin}/kinds/${KIND}/default/shop`);
  await viewer.getByLabel("Token").fill("not-a-token");
  await viewer.getByRole("button", { name: "Sign in" }).click();
  await expect(viewer.getByText("does not accept this token")).toBeVisible();
  await viewer.getByLabel("Token").fill(token);
  await viewer.getByRole("button", { name: "Sign in" }).click();
  await expect(viewer.getByRole("heading", { name: "shop", exact: true })).toBeVisible();
  for (const name of ["Edit", "Increase replicas"]) {
    const button = viewer.getByRole("button", { name });
    await expect(button).toHaveAttribute("aria-disabled", "true");
    await expect(button).toHaveAccessibleDescription(/.+/);
  }
  await viewer.goto(`${server.origin}/kinds/${KIND}/default/shop/edit`);
  await expect(viewer.getByRole("heading", { name: "Not allowed" })).toBeVisible();
  await viewer.goto(`${server.origin}/kinds/${KIND}`);
  await expect(viewer.getByRole("button", { name: "New Minimart" })).toHaveAttribute("aria-disabled", "true");
  await other.close();
});

test("an ended session asks to sign in again and keeps the page", async () => {
  await openShop();
  await context.clearCookies();
  // The stream reports a change; the page requests the related data and is refused.
  await server.kube("PATCH", SHOP, { metadata: { annotations: { "example.com/checked": "yes" } } });
  await expect(page.getByRole("heading", { name: "Your session has ended" })).toBeVisible();
  const { body } = await server.kube("POST", "/api/v1/namespaces/default/serviceaccounts", { metadata: { name: "admin" } });
  expect((body.metadata as { name: string }).name).toBe("admin");
  await server.kube("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
    metadata: { name: "portal-admin" },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
    subjects: [{ kind: "ServiceAccount", name: "admin", namespace: "default" }],
  });
  const answer = await server.kube("POST", "/api/v1/namespaces/default/serviceaccounts/admin/token", { spec: {} });
  await page.getByLabel("Token").fill((answer.body.status as { token: string }).token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("heading", { name: "Your session has ended" })).toHaveCount(0);
  await page.getByRole("button", { name: "Increase replicas" }).click();
  await page.getByRole("button", { name: "Scale to 3" }).click();
  await expect(page.getByRole("dialog").locator("ins")).toHaveText("3");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toHaveCount(0);
});

test("a newly installed kind appears, with a form and the server's errors at its fields", async () => {
  await page.goto(server.origin);
  await expect(page.getByRole("heading", { name: "Overview" })).toBeVisible();
  const installed = await server.kube("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: "lamps.light.example.com" },
    spec: {
      group: "light.example.com",
      scope: "Namespaced",
      names: { kind: "Lamp", listKind: "LampList", plural: "lamps", singular: "lamp" },
      versions: [
        {
          name: "v1",
          served: true,
          storage: true,
          additionalPrinterColumns: [{ name: "Colour", type: "string", jsonPath: ".spec.colour" }],
          schema: {
            openAPIV3Schema: {
              type: "object",
              properties: {
                spec: {
                  type: "object",
                  required: ["watts"],
                  properties: {
                    watts: { type: "integer", description: "Power of the bulb." },
                    colour: { type: "string", enum: ["warm", "cold"] },
                    dim: { "x-kubernetes-int-or-string": true },
                  },
                  "x-kubernetes-validations": [{ rule: "self.watts <= 60", message: "a bulb has at most 60 watts", fieldPath: ".watts" }],
                },
              },
            },
          },
        },
      ],
    },
  });
  expect(installed.code).toBe(201);
  await page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: /Lamp/ }).click();
  await page.getByRole("link", { name: "New Lamp" }).click();
  await page.getByRole("textbox", { name: /^Name/ }).fill("desk");
  await page.getByLabel("Watts").fill("100");
  await page.getByLabel("Colour").selectOption("warm");
  await page.getByLabel("Dim").fill("25%");
  await page.getByRole("button", { name: "Review" }).click();
  const field = page.locator(".field", { has: page.getByLabel("Watts") }).last();
  await expect(field).toContainText("a bulb has at most 60 watts");
  await expect(page.getByLabel("Watts")).toHaveAttribute("aria-invalid", "true");
  await expectAccessible("field errors");
  await page.getByLabel("Watts").fill("40");
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByRole("button", { name: "Create Lamp" }).click();
  await expect(page.getByRole("heading", { name: "desk", exact: true })).toBeVisible();
  await page.goto(`${server.origin}/kinds/lamps.light.example.com`);
  await expect(page.getByRole("row", { name: /desk/ })).toContainText("warm");
});

test("search finds an instance by a few letters", async () => {
  await page.goto(server.origin);
  await expect(page.getByRole("heading", { name: "Overview" })).toBeVisible();
  await page.keyboard.press("ControlOrMeta+k");
  await page.getByRole("combobox").fill("sho");
  await expect(page.getByRole("option", { name: /shop/ }).first()).toBeVisible();
  await expectAccessible("search");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: "shop", exact: true })).toBeVisible();
});

test("the web component shows the health, asks for confirmation and runs the action", async () => {
  await page.goto(server.origin);
  await page.evaluate(
    async ([kind, script]) => {
      await import(script ?? "");
      const button = document.createElement("steer-button");
      for (const [name, value] of Object.entries({ kind, namespace: "default", name: "shop", action: "scale", value: "1" })) button.setAttribute(name, value ?? "");
      button.textContent = "One till only";
      document.body.append(button);
    },
    [KIND, `${server.origin}/embed/steer-button.js`],
  );
  const button = page.locator("steer-button");
  await expect(button.getByRole("status")).toContainText("Ready");
  await button.getByRole("button", { name: "One till only" }).dispatchEvent("click");
  await expect(button.getByRole("dialog")).toContainText("spec.replicaCount: 2 → 1");
  expect(await replicas()).toBe(2);
  await button.getByRole("button", { name: "Continue" }).click();
  await expect.poll(replicas).toBe(1);
});

test("deletion lists the dependent objects and removes the row from the table", async () => {
  await openShop();
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("button", { name: "Delete" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog).toContainText("Deployment/shop");
  await expectAccessible("delete");
  await expect(dialog.getByRole("button", { name: "Delete" })).toBeDisabled();
  await dialog.getByLabel(/Type shop to confirm/).fill("shop");
  await dialog.getByRole("button", { name: "Delete" }).click();
  await expect(page.getByRole("heading", { name: "Minimarts" })).toBeVisible();
  await expect(page.getByRole("row", { name: /minimart-sample/ })).toBeVisible();
  await expect(page.getByRole("row", { name: /\bshop\b/ })).toHaveCount(0);
  expect((await server.kube("GET", SHOP)).code).toBe(404);
});

test("a lost server connection is reported and recovers", async () => {
  await page.goto(`${server.origin}/kinds/${KIND}`);
  await expect(page.getByRole("row", { name: /minimart-sample/ })).toBeVisible();
  await context.setOffline(true);
  await expect(page.getByText("Server unreachable")).toBeVisible();
  await expect(page.getByRole("row", { name: /minimart-sample/ })).toBeVisible();
  await context.setOffline(false);
  await expect(page.getByText("Server unreachable")).toHaveCount(0);
});

test("the operator page shows reconciles and log", async () => {
  await page.goto(`${server.origin}/operator`);
  const operator = page.getByRole("region", { name: "charts and plays" });
  await expect(operator.getByText("Reconciles", { exact: true }).locator("+ dd")).toHaveText(/^[1-9]/);
  await expect(operator.getByRole("link", { name: "minimarts.charts.samutup.com" })).toBeVisible();
  await expect(page.getByLabel("Log", { exact: true })).toContainText("INFO");
  await expectAccessible("operator");
});

test("the portal works on a phone", async () => {
  await page.setViewportSize({ width: 390, height: 844 });
  await page.goto(`${server.origin}/kinds/${KIND}`);
  await expect(page.getByRole("row", { name: /minimart-sample/ })).toBeVisible();
  const wide = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
  expect(wide).toBe(false);
  await page.getByRole("button", { name: "Kinds", exact: true }).click();
  await page.getByRole("link", { name: "Overview" }).click();
  await expect(page.getByRole("heading", { name: "Overview" })).toBeVisible();
  await expectAccessible("phone");
});

test("an OpenID provider is offered, and a user unknown to the cluster is refused with a message", async ({ browser }) => {
  const provider = await startProvider();
  const other = await serveWithProvider(server.kubeconfig, provider.issuer);
  const visitor = await browser.newPage();
  await visitor.goto(`${other.origin}/kinds/${KIND}`);
  const link = visitor.getByRole("link", { name: `Sign in with ${new URL(provider.issuer).host}` });
  await expect(link).toHaveAttribute("href", `/v1/session/oidc?next=${encodeURIComponent(`/kinds/${KIND}`)}`);
  await link.click();
  await expect(visitor.getByRole("alert")).toHaveText("Sign-in was denied or timed out. Try again.");
  expect(await visitor.context().cookies()).toEqual([]);
  await visitor.close();
  other.stop();
  provider.stop();
});

test("no requests to other hosts and no violations of the content security policy", () => {
  expect(foreign).toEqual([]);
  expect(complaints).toEqual([]);
});
