/**
 * Bundles the programs that run inside a sandbox, each into one file with a command beside it.
 *
 * A sandbox may show a program alone. CommonJS needs no other file and starts slightly faster.
 */
import { readdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { options, root } from './bundle.mjs'

const sources = join('worker', 'inside')
/** An agent without a model, for examples, tests and the quick start. */
const scriptedAgent = 'examples/scripted-agent/program/scripted-agent.ts'

/** The source of each program, below the root. */
export function sandboxPrograms() {
  const names = readdirSync(join(root, sources)).filter((name) => name.endsWith('.ts'))
  const paths = [scriptedAgent, ...names.map((name) => join(sources, name))]
  return paths.sort((a, b) => (basename(a) < basename(b) ? -1 : 1))
}

/** The files of a folder `inside` without its native add-on, and what they were made from. */
export async function bundleSandboxPrograms() {
  const { build: bundle } = await import('esbuild')
  const bundles = await Promise.all(sandboxPrograms().map((entry) => bundle(programOptions(entry))))
  const files = bundles.flatMap(({ outputFiles: [program] }, index) => {
    const name = basename(sandboxPrograms()[index], '.ts')
    return [
      { name: `${name}.js`, content: Buffer.from(program.contents) },
      { name, content: Buffer.from(commandText(name)) },
    ]
  })
  // Otherwise Node would use the package.json of a folder above, or another one inside a sandbox.
  const manifest = { name: 'package.json', content: Buffer.from('{ "type": "commonjs" }\n') }
  return {
    files: [...files, manifest],
    sources: bundles.flatMap(({ metafile }) => Object.keys(metafile.inputs)),
  }
}

function programOptions(entry) {
  const { banner: _, external: __, ...plain } = options
  return {
    ...plain,
    entryPoints: [entry],
    outfile: `${basename(entry, '.ts')}.js`,
    format: 'cjs',
    sourcemap: false,
    legalComments: 'none',
    write: false,
  }
}

const commandText = (name) => `#!/bin/sh\nexec "\${SWITCHYARD_NODE:-node}" "\${0%/*}/${name}.js" "$@"\n`
