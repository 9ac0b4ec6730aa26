/**
 * One way of bundling, shared by the product's build and by running a single TypeScript file.
 *
 * Everything is bundled but what can't be: native add-ons, and what starts worker threads from files of its own.
 * That matters at start: 709 files of typebox read one by one cost 300 ms, bundled they cost a few.
 */
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = dirname(dirname(fileURLToPath(import.meta.url)))
export const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))

/** Not bundled: loaded from node_modules when the program runs. */
const external = [
  'lmdb', // native
  'uWebSockets.js', // native
  'pino', // worker threads for its transports
  'pino-pretty', // loaded by pino by name
  'ssh2', // optional native part
  '@lydell/node-pty', // native
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

/** Remembers what a bundle was made of, so that nobody bundles the same sources twice. */
export function writeStamp(path, metafile) {
  writeFileSync(path, JSON.stringify(stampOf([...Object.keys(metafile.inputs), ...always])))
}

/** `entries`: sources that must be among them, for a file that is new is in no old stamp. */
export function isFresh(path, entries = []) {
  try {
    const stamp = JSON.parse(readFileSync(path, 'utf8'))
    if (entries.some((entry) => stamp[entry] === undefined)) return false
    return JSON.stringify(stampOf(Object.keys(stamp))) === JSON.stringify(stamp)
  } catch {
    return false
  }
}

/** A bundle also depends on how it is made and with which versions. */
const always = [
  'package.json',
  'package-lock.json',
  'tsconfig.json',
  'build/build.mjs',
  relative(root, fileURLToPath(import.meta.url)),
]

function stampOf(files) {
  return Object.fromEntries([...new Set(files)].sort().map((file) => [file, ageOf(file)]))
}

function ageOf(file) {
  const { mtimeMs, size } = statSync(join(root, file))
  return `${mtimeMs} ${size}`
}
