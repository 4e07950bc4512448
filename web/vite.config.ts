/** How the page is built: into the Python package, as files that a strict content-security policy allows. */
import { defineConfig } from "vite";

export default defineConfig({
  build: {
    outDir: "../src/klarm/server/page",
    emptyOutDir: true,
    target: "es2022",
    // A data: address would be refused by the policy.
    assetsInlineLimit: 0,
    // Its polyfill is an inline script, and the page is a single file: there is nothing to preload.
    modulePreload: { polyfill: false },
  },
  // `npm run dev` shows the page with the data of a klarm serve that is running.
  server: { proxy: { "/api": "http://127.0.0.1:8421" } },
});
