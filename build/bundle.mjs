/**
 * Bundling options shared by the product's build and by `run.mjs`.
 *
 * Everything is bundled except native add-ons and packages that start worker threads from their own files. A bundle
 * speeds up the start: the 709 files of typebox cost 300 ms one by one, and a few milliseconds bundled.
 */
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = dirname(dirname(fileURLToPath(import.meta.url)))
export const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))

/** Not bundled: loaded from node_modules when the program runs. */
const external = [
  'lmdb', // native
  'uWebSockets.js', // native: the program loads its binary by path
  'pino', // worker threads for its transports
  'pino-pretty', // loaded by pino by name
  'ssh2', // optional native part
  '@lydell/node-pty', // native
  'playwright-core', // finds its files beside its own; only the bench loads it
  '*.node',
]

/** Bundled CommonJS packages call `require` for Node's own modules, and an ES module has none. */
const banner = {
  js: "import { createRequire as createRequireForBundle } from 'node:module'; const require = createRequireForBundle(import.meta.url);",
}

export const options = {
  absWorkingDir: root,
  bundle: true,
  platform: 'node',
  target: 'node20',
  format: 'esm',
  external,
  banner,
  define: { SWITCHYARD_VERSION: JSON.stringify(manifest.version) },
  sourcemap: 'linked',
  sourcesContent: false,
  legalComments: 'linked',
  logLevel: 'warning',
  metafile: true,
}

/**
 * Replaces the characters of a bundle that are not ASCII, if all of them are in comments; esbuild escapes those in
 * strings. V8 keeps the source of a running program, and one such character doubles it: each of its characters then takes
 * two bytes.
 */
export async function asciiOf(contents) {
  const text = Buffer.from(contents).toString()
  const ascii = text.replace(/[^\0-\x7f]/g, '?')
  if (ascii === text) return contents
  // A replacement in code may be no code at all.
  const code = await codeOf(ascii).catch(() => undefined)
  return code === (await codeOf(text)) ? Buffer.from(ascii) : contents
}

/** A program without its comments. */
async function codeOf(text) {
  const { transform } = await import('esbuild')
  return (await transform(text, { minifyWhitespace: true, legalComments: 'none', charset: 'utf8' })).code
}

/** Records the sources of a bundle, so that unchanged sources are not bundled again. */
export function writeStamp(path, metafile) {
  writeFileSync(path, JSON.stringify(stampOf([...Object.keys(metafile.inputs), ...alwaysIncluded])))
}

/** @param entries sources that the stamp must contain: an old stamp does not know a new file */
export function isFresh(path, entries = []) {
  try {
    const stamp = JSON.parse(readFileSync(path, 'utf8'))
    if (entries.some((entry) => stamp[entry] === undefined)) return false
    return JSON.stringify(stampOf(Object.keys(stamp))) === JSON.stringify(stamp)
  } catch {
    return false
  }
}

/** A bundle also depends on its build scripts and on package versions. */
const alwaysIncluded = [
  'package.json',
  'package-lock.json',
  'tsconfig.json',
  'build/build.mjs',
  'build/compile-programs.mjs',
  'build/keep-compiled-code.cjs',
  'build/listener-binaries.mjs',
  'build/notices.mjs',
  'build/sandbox-programs.mjs',
  'build/tar.mjs',
  'build/worker-package.mjs',
  'build/worker-starter.mjs',
  relative(root, fileURLToPath(import.meta.url)),
]

function stampOf(files) {
  return Object.fromEntries([...new Set(files)].sort().map((file) => [file, versionOf(file)]))
}

function versionOf(file) {
  const { mtimeMs, size } = statSync(join(root, file))
  return `${mtimeMs} ${size}`
}
