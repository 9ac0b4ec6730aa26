/**
 * `npm run build`: bin/switchyard.ts and all it needs become dist/bin/switchyard.js, and each program that runs inside
 * a sandbox becomes one file of dist/inside/ with a command beside it.
 *
 * Commands that are imported lazily become files of their own beside switchyard.js, so that `switchyard status` does
 * not pay for the server. The whole of dist/ is made anew, but only once the bundles are known to be good.
 */
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join, relative } from 'node:path'
import { pathToFileURL } from 'node:url'
import { isFresh, options, root, writeStamp } from './bundle.mjs'

const dist = join(root, 'dist')
export const program = join(dist, 'bin', 'switchyard.js')
const stamp = join(dist, 'stamp.json')
const inside = { sources: join('worker', 'inside'), built: join(dist, 'inside') }

export function isBuilt() {
  return existsSync(program) && isFresh(stamp, entriesInside())
}

export async function build() {
  const { build: bundle } = await import('esbuild')
  const terminals = nativeTerminals()
  const bundles = await Promise.all([
    bundle({
      ...options,
      entryPoints: { 'bin/switchyard': 'bin/switchyard.ts' },
      outdir: dist,
      splitting: true,
      chunkNames: 'bin/parts/[name]-[hash]',
      write: false,
    }),
    ...entriesInside().map((entry) => bundle(optionsInside(entry))),
  ])
  rmSync(dist, { recursive: true, force: true })
  for (const { path, contents } of bundles.flatMap(({ outputFiles }) => outputFiles)) write(path, contents)
  makeCommand(program)
  for (const entry of entriesInside()) makeCommandInside(basename(entry, '.ts'))
  copyFileSync(terminals, join(inside.built, 'pty.node'))
  // Without it Node would read these by the checkout's package.json, and otherwise where a sandbox shows them.
  write(join(inside.built, 'package.json'), '{ "type": "commonjs" }\n')
  openToAll(inside.built)
  const inputs = Object.assign({}, ...bundles.map(({ metafile }) => metafile.inputs))
  writeStamp(stamp, { inputs: { ...inputs, [relative(root, terminals)]: {} } })
}

function write(path, contents) {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, contents)
}

// ---- what runs inside a sandbox -------------------------------------------------------------------------------------

function entriesInside() {
  const names = readdirSync(join(root, inside.sources)).filter((name) => name.endsWith('.ts'))
  return names.map((name) => join(inside.sources, name))
}

/** One file each, for it may be shown alone; and CommonJS, which needs nothing around it and starts a little faster. */
function optionsInside(entry) {
  const { banner: _, external: __, ...plain } = options
  return {
    ...plain,
    entryPoints: [entry],
    outfile: join(inside.built, `${basename(entry, '.ts')}.js`),
    format: 'cjs',
    sourcemap: false,
    legalComments: 'none',
    write: false,
  }
}

/** What `terminal` loads, for this machine: a package of its own for each kind of machine. */
function nativeTerminals() {
  const wanted = `@lydell/node-pty-${process.platform}-${process.arch}`
  try {
    const { resolve } = createRequire(join(root, 'node_modules', '@lydell', 'node-pty', 'package.json'))
    return resolve(`${wanted}/pty.node`)
  } catch {
    throw new Error(`${wanted} is not installed, so there are no terminals; run: npm ci --include=optional`)
  }
}

function makeCommandInside(name) {
  const script = `#!/bin/sh\nexec "\${SWITCHYARD_NODE:-node}" "\${0%/*}/${name}.js" "$@"\n`
  writeFileSync(join(inside.built, name), script)
}

/** Whatever the umask: a sandbox of a worker that is root runs as somebody else. */
function openToAll(folder) {
  for (const path of [dist, folder, ...readdirSync(folder).map((name) => join(folder, name))])
    chmodSync(path, 0o755)
}

function makeCommand(path) {
  const text = readFileSync(path, 'utf8')
  if (!text.startsWith('#!')) writeFileSync(path, `#!/usr/bin/env node\n${text}`)
  chmodSync(path, 0o755)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  await build().catch((error) => {
    // esbuild has printed its own messages with file and line.
    if (error.errors === undefined) console.error(error)
    process.exitCode = 1
  })
}
