import { defineConfig } from "@playwright/test";

// Debian's Chromium by default; CHROMIUM overrides it.
const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";

export default defineConfig({
  testDir: "tests",
  outputDir: "test-results",
  workers: 1,
  fullyParallel: false,
  timeout: 120_000,
  expect: { timeout: 30_000 },
  reporter: [["list"]],
  projects: [
    { name: "portal", testMatch: "portal.spec.ts" },
    { name: "screenshots", testMatch: "screenshots.spec.ts" },
  ],
  use: {
    viewport: { width: 1440, height: 900 },
    launchOptions: { executablePath, args: ["--no-sandbox"] },
    screenshot: "only-on-failure",
  },
});
