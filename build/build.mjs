/**
 * `npm run build`: bin/switchyard.ts and all it needs become dist/bin/switchyard.js.
 *
 * Commands that are imported lazily become files of their own beside it, so that `switchyard status` does not pay for
 * the server. The whole of dist/ is made anew, but only once the bundle is known to be good.
 */
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { isFresh, options, root, writeStamp } from './bundle.mjs'

const dist = join(root, 'dist')
export const program = join(dist, 'bin', 'switchyard.js')
const stamp = join(dist, 'stamp.json')

export function isBuilt() {
  return existsSync(program) && isFresh(stamp)
}

export async function build() {
  const { build: bundle } = await import('esbuild')
  const { outputFiles, metafile } = await bundle({
    ...options,
    entryPoints: { 'bin/switchyard': 'bin/switchyard.ts' },
    outdir: dist,
    splitting: true,
    chunkNames: 'bin/parts/[name]-[hash]',
    write: false,
  })
  rmSync(dist, { recursive: true, force: true })
  for (const { path, contents } of outputFiles) write(path, contents)
  makeCommand(program)
  writeStamp(stamp, metafile)
}

function write(path, contents) {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, contents)
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
