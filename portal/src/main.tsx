import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/components.css";
import "./styles/pages.css";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { watchConnection } from "./api/probe";
import { queryClient } from "./api/queries";
import { applyTheme, currentTheme } from "./lib/theme";
import { router } from "./router";

applyTheme(currentTheme(), false);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  applyTheme(currentTheme(), false);
});

watchConnection(() => void queryClient.invalidateQueries());

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queryClient}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </StrictMode>,
  );
}
