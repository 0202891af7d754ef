// Build the package (dist/) and the files that the survey page is made of, which are committed
// (flows/collecting/survey/files/, or the folder given).
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const compiler = join(here, "node_modules/typescript/bin/tsc");
if (!existsSync(compiler)) {
  // `npm pack` in a clean checkout: install the pinned tools, without running scripts of theirs.
  const npm = process.env.npm_execpath;
  if (npm === undefined) throw new Error("the tools are missing: run npm ci --ignore-scripts");
  const words = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"];
  execFileSync(process.execPath, words, { cwd: here, stdio: "inherit" });
}
const { build } = await import("esbuild");
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
