/**
 * Bundles packages with very many files for the tests, because every test file loads its modules again.
 *
 * Reading the 709 files of typebox takes a quarter of a second, and nearly every test file needs them. The
 * product's bundle contains them in the same way.
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { options, root } from './bundle.mjs'

const ENTRIES = { typebox: ['typebox', 'typebox/compile'] }
const cache = join(root, 'node_modules', '.cache', 'switchyard-tests')

/** Jest's `moduleNameMapper` entries for the bundled packages. */
export async function packagesMapped() {
  const mapped = await Promise.all(Object.keys(ENTRIES).map(mapPackage))
  return Object.fromEntries(mapped)
}

async function mapPackage(name) {
  const folder = join(cache, `${name}-${versionOf(name)}-${versionOf('esbuild')}`)
  if (!existsSync(folder)) await bundleInto(folder, ENTRIES[name])
  return [`^(${ENTRIES[name].join('|')})$`, join(folder, '$1.mjs')]
}

/** Moves the finished folder into place at once, because several processes may build it. */
async function bundleInto(folder, names) {
  const { build } = await import('esbuild')
  mkdirSync(cache, { recursive: true })
  const draft = mkdtempSync(`${folder}-`)
  const { banner: _, define: __, external: ___, ...plain } = options
  await build({
    ...plain,
    entryPoints: Object.fromEntries(names.map((name) => [name, name])),
    outdir: draft,
    outExtension: { '.js': '.mjs' },
    splitting: true,
    sourcemap: false,
    legalComments: 'none',
  })
  try {
    renameSync(draft, folder)
  } catch (error) {
    rmSync(draft, { recursive: true })
    if (!existsSync(folder)) throw error
  }
}

function versionOf(name) {
  return JSON.parse(readFileSync(join(root, 'node_modules', name, 'package.json'), 'utf8')).version
}
