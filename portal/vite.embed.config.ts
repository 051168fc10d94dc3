import { defineConfig } from "vite";

// The web component is one file with a stable name, so that other sites can refer to it.
export default defineConfig({
  publicDir: false,
  build: {
    target: "es2022",
    outDir: "dist",
    emptyOutDir: false,
    sourcemap: false,
    reportCompressedSize: false,
    lib: { entry: "src/embed/steer-button.ts", formats: ["es"], fileName: () => "embed/steer-button.js" },
  },
});
