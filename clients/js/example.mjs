// Build the React example into examples/react/built, types checked: `npm run example`.
import { execFileSync } from "node:child_process";
import { copyFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const folder = join(here, "examples/react");
const compiler = join(here, "node_modules/typescript/bin/tsc");
execFileSync(process.execPath, [compiler, "-p", folder], { stdio: "inherit" });
await build({
  absWorkingDir: here,
  bundle: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  minify: true,
  define: { "process.env.NODE_ENV": '"production"' },
  entryPoints: [join(folder, "main.tsx")],
  outfile: join(folder, "built/main.js"),
});
copyFileSync(join(folder, "index.html"), join(folder, "built/index.html"));
