// Build the package (dist/) and the files that the survey page is made of, which are committed
// (flows/collecting/survey/files/, or the folder given).
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const folder = process.argv[2] ?? join(here, "../../flows/collecting/survey/files");
const options = {
  absWorkingDir: here,
  bundle: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  banner: { js: "// Built by `make js`; the sources, with their comments, are in clients/js." },
};

rmSync(join(here, "dist"), { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
const compiler = join(here, "node_modules/typescript/bin/tsc");
execFileSync(process.execPath, [compiler, "--noEmit", "-p", here], { stdio: "inherit" });
execFileSync(
  process.execPath,
  [compiler, "-p", join(here, "tsconfig.types.json")],
  { stdio: "inherit" },
);
await build({ ...options, entryPoints: ["src/index.ts"], outfile: join(here, "dist/hushrank.js") });
copyFileSync(join(here, "dist/hushrank.js"), join(folder, "hushrank.js"));
await build({
  ...options,
  entryPoints: ["page/page.ts"],
  outfile: join(folder, "page.js"),
  external: ["./hushrank.js"],
});
copyFileSync(join(here, "../../LICENSE"), join(here, "LICENSE"));
