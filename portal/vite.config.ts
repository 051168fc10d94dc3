import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// `STEER_PORTAL_SERVER` is the `steer serve` to which `npm run dev` proxies API calls.
const server = process.env.STEER_PORTAL_SERVER ?? "http://127.0.0.1:8443";

export default defineConfig({
  plugins: [react()],
  // A test helper in @rjsf/core imports the validator that compiles schemas; the portal has its own and does not install it.
  resolve: { alias: { "@rjsf/validator-ajv8": new URL("src/form/validator.ts", import.meta.url).pathname } },
  build: {
    target: "es2022",
    outDir: "dist",
    emptyOutDir: true,
    sourcemap: false,
    // Keep fonts as separate files: the content security policy does not allow `data:` fonts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: { proxy: { "/v1": server, "/openapi.json": server } },
});
