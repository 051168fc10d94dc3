import { mkdirSync } from "node:fs";
import { expect, test, type Page } from "@playwright/test";
import { startServer, type Server } from "./server";

const FOLDER = "../docs/screenshots";
const KIND = "minimarts.charts.samutup.com";
const MINIMARTS = "/apis/charts.samutup.com/v1alpha1/namespaces";

let server: Server;

test.beforeAll(async () => {
  mkdirSync(FOLDER, { recursive: true });
  server = await startServer();
  const shops: [string, string, object][] = [
    ["team-a", "shop", { replicaCount: 3, service: { type: "NodePort", port: 80 }, shop: { name: "Corner shop", currency: "EUR", items: [{ name: "milk", price: 1.19 }, { name: "coffee", price: 4.99 }] } }],
    ["team-a", "kiosk", { replicaCount: 1 }],
    ["team-b", "harbour", { replicaCount: 2 }],
    ["team-b", "outlet", { replicaCount: 1, service: { type: "Tunnel", port: 80 } }],
    ["team-c", "station", { replicaCount: 2 }],
    ["team-c", "market", { replicaCount: 4 }],
  ];
  for (const namespace of ["team-a", "team-b", "team-c"]) await server.kube("POST", "/api/v1/namespaces", { metadata: { name: namespace } });
  for (const [namespace, name, spec] of shops) {
    const made = await server.kube("POST", `${MINIMARTS}/${namespace}/minimarts`, { apiVersion: "charts.samutup.com/v1alpha1", kind: "Minimart", metadata: { name }, spec });
    expect(made.code).toBe(201);
  }
});

test.afterAll(async () => {
  await server.stop();
});

async function shot(page: Page, name: string): Promise<void> {
  await page.mouse.move(0, 0);
  await page.screenshot({ path: `${FOLDER}/${name}.png`, animations: "disabled" });
}

async function theme(page: Page, name: "light" | "dark"): Promise<void> {
  await page.evaluate((chosen) => (document.documentElement.dataset.theme = chosen), name);
}

test("screenshots of each page", async ({ page }) => {
  const shop = `${server.origin}/kinds/${KIND}/team-a/shop`;
  await page.goto(server.origin);
  await expect(page.getByRole("heading", { name: "Sign in to Steersman" })).toBeVisible();
  await shot(page, "sign-in");
  await page.goto(server.link);
  await page.goto(shop);
  await expect(page.locator(".instance-header .health", { hasText: "Ready" })).toBeVisible();
  await page.getByRole("button", { name: "Increase replicas" }).click();
  await page.getByRole("button", { name: "Scale to 4" }).click();
  await expect(page.getByRole("dialog").locator("ins")).toHaveText("4");
  await shot(page, "scale");
  await page.getByRole("dialog").getByRole("button", { name: "Scale" }).click();
  await expect(page.locator(".tree-row", { hasText: "Deployment" })).toContainText("4/4");
  await expect(page.locator(".activity li").first()).toBeVisible();
  await shot(page, "instance");
  await page.getByRole("button", { name: "Graph" }).click();
  await expect(page.locator(".graph > svg")).toBeVisible();
  await theme(page, "dark");
  await shot(page, "graph-dark");
  await theme(page, "light");

  await page.goto(`${shop}/edit`);
  await page.getByLabel("Currency").fill("CHF");
  await expect(page.locator(".cm-content")).toContainText("CHF");
  await shot(page, "edit");
  await page.getByRole("button", { name: "Review" }).click();
  await expect(page.locator(".changes")).toBeVisible();
  await shot(page, "review");
  await page.getByRole("button", { name: "Back to edit" }).click();
  await server.kube("PATCH", `${MINIMARTS}/team-a/minimarts/shop`, { spec: { shop: { currency: "GBP" } } });
  await page.getByRole("button", { name: "Review" }).click();
  await expect(page.getByRole("heading", { name: "Changed by another user" })).toBeVisible();
  await shot(page, "conflict");

  await page.goto(`${shop}/history`);
  await expect(page.locator(".changes")).toBeVisible();
  await shot(page, "history");

  await page.goto(`${server.origin}/kinds/${KIND}`);
  await expect(page.getByRole("row", { name: /outlet/ })).toContainText("Failing");
  await shot(page, "instances");
  await page.goto(`${server.origin}/kinds/${KIND}/new`);
  await expect(page.getByRole("heading", { name: "New Minimart" })).toBeVisible();
  await expect(page.locator(".cm-content")).toBeVisible();
  await shot(page, "create");

  await page.goto(server.origin);
  await expect(page.locator(".failing-list")).toBeVisible();
  await shot(page, "overview");
  await theme(page, "dark");
  await shot(page, "overview-dark");
  await theme(page, "light");
  await page.keyboard.press("ControlOrMeta+k");
  await page.getByRole("combobox").fill("sho");
  await expect(page.getByRole("option", { name: /shop/ }).first()).toBeVisible();
  await shot(page, "search");

  await page.setViewportSize({ width: 390, height: 844 });
  await page.goto(shop);
  await expect(page.locator(".tree-row").first()).toBeVisible();
  await expect(page.locator(".timeline")).toBeVisible();
  await shot(page, "phone");
});
