/**
 * `node build/run.mjs FILE.ts ARGS…`: runs one TypeScript file with everything it imports.
 *
 * The bundle is cached below node_modules/.cache, where Node still finds the packages outside it, and is reused
 * while its sources are unchanged. Inside, `import.meta.url` is the bundle's, not the source's.
 */
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { isFresh, options, root, writeStamp } from './bundle.mjs'

const [file, ...args] = process.argv.slice(2)
if (file === undefined || !existsSync(file)) {
  console.error(file === undefined ? 'usage: node build/run.mjs FILE.ts ARGS…' : `run: no such file: ${file}`)
  process.exit(2)
}

const entry = resolve(file)
const key = createHash('sha256').update(entry).digest('hex').slice(0, 12)
const cached = join(root, 'node_modules', '.cache', 'switchyard', `${basename(entry, '.ts')}-${key}`)
const [bundle, stamp] = [`${cached}.mjs`, `${cached}.json`]

if (!isFresh(stamp) || !existsSync(bundle)) await rebuild()
process.setSourceMapsEnabled(true)
process.argv = [process.execPath, entry, ...args]
await import(pathToFileURL(bundle).href)

async function rebuild() {
  const { build, stop } = await import('esbuild')
  try {
    const { metafile } = await build({
      ...options,
      entryPoints: [entry],
      outfile: bundle,
      legalComments: 'none',
    })
    writeStamp(stamp, metafile)
    // Otherwise esbuild's process would live as long as the program, as its child.
    await stop()
  } catch (error) {
    if (error.errors === undefined) throw error
    process.exit(1)
  }
}
