/**
 * Makes one file of the parts that a page shares and loads first.
 *
 * The bundler makes a part for each set of entries that share code, which is dozens of files of a few hundred bytes: their
 * heads are longer than their bodies, and short texts are compressed badly. Files that import from a merged part are
 * renamed, because a name must change with its content.
 */
import { createHash } from 'node:crypto'
import { basename } from 'node:path'

const IMPORT = /import(?:\{([^}]*)\}from)?"\.\/(chunk-[A-Z0-9]+\.js)";?/g

/**
 * @param files as they come out of the bundler, by name
 * @param loaded the names of the files that are loaded together, such as those of the first load
 */
export async function mergeFirstLoad({ files, metafile }, loaded) {
  const merged = loaded.map((name) => basename(name)).filter((name) => name.startsWith('chunk-'))
  const texts = new Map(
    files
      .filter(({ name }) => name.endsWith('.js'))
      .map(({ name, contents }) => [basename(name), textOf(contents)]),
  )
  const outputOf = (name) => metafile.outputs[`out/assets/${name}`]
  const sharedText = await bundleShared(merged, texts, outputOf)
  const shared = `shared-${hashOf(sharedText)}.js`
  const others = [...texts.keys()].filter((name) => !merged.includes(name))
  const renamed = new Map(others.map((name) => [name, rename(name, shared)]))
  const withNames = (text) => text.replace(/[\w-]+-[A-Z0-9]{8}\.js/g, (name) => renamed.get(name) ?? name)
  const scripts = others.map((name) => ({
    name: `assets/${renamed.get(name)}`,
    contents: withNames(importShared(texts.get(name), merged, shared)),
  }))
  const plain = files.filter(({ name }) => !name.endsWith('.js'))
  const pathOf = (path) => {
    const name = basename(path)
    return merged.includes(name) ? `out/assets/${shared}` : path.replace(name, renamed.get(name) ?? name)
  }
  const outputs = {}
  for (const [path, output] of Object.entries(metafile.outputs)) {
    const to = pathOf(path)
    const imports = output.imports.map((imported) => ({ ...imported, path: pathOf(imported.path) }))
    const before = outputs[to]
    outputs[to] = {
      ...output,
      imports: [...(before?.imports ?? []), ...imports].filter(({ path: imported }) => imported !== to),
      inputs: { ...before?.inputs, ...output.inputs },
    }
  }
  return {
    files: [...plain, ...scripts, { name: `assets/${shared}`, contents: withNames(sharedText) }],
    metafile: { ...metafile, outputs },
  }
}

const textOf = (contents) => Buffer.from(contents).toString()
const hashOf = (text) => createHash('sha256').update(text).digest('hex').slice(0, 8).toUpperCase()
const rename = (name, shared) => name.replace(/-[A-Z0-9]{8}\.js$/, `-${hashOf(name + shared)}.js`)

/** Exports of different parts have the same short names. */
const sharedName = (merged, chunk, name) => `${name}_${merged.indexOf(chunk)}`

async function bundleShared(merged, texts, outputOf) {
  const { build: bundle } = await import('esbuild')
  const lines = merged.map((chunk) => {
    const names = outputOf(chunk).exports.map((name) => `${name} as ${sharedName(merged, chunk, name)}`)
    return names.length === 0 ? `import './${chunk}'` : `export { ${names.join(', ')} } from './${chunk}'`
  })
  const inMemory = {
    name: 'in memory',
    setup({ onResolve, onLoad }) {
      onResolve({ filter: /^\.\// }, ({ path, kind }) =>
        kind === 'dynamic-import' || !merged.includes(basename(path))
          ? { path, external: true }
          : { path: basename(path), namespace: 'part' },
      )
      onLoad({ filter: /./, namespace: 'part' }, ({ path }) => ({ contents: texts.get(path), loader: 'js' }))
    },
  }
  const { outputFiles } = await bundle({
    stdin: { contents: lines.join('\n'), resolveDir: '/' },
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    supported: { 'top-level-await': true },
    legalComments: 'none',
    logLevel: 'warning',
    plugins: [inMemory],
    write: false,
  })
  return textOf(outputFiles[0].contents)
}

function importShared(text, merged, shared) {
  const names = []
  let isImported = false
  const rest = text.replace(IMPORT, (whole, imported, chunk) => {
    if (!merged.includes(chunk)) return whole
    isImported = true
    for (const each of imported?.split(',') ?? []) {
      const [name, as = name] = each.split(' as ')
      names.push(`${sharedName(merged, chunk, name)} as ${as}`)
    }
    return ''
  })
  const left = merged.find((chunk) => rest.includes(chunk))
  if (left !== undefined)
    throw new Error(`the bundler imports ${left} in a way that mergeFirstLoad does not know`)
  if (!isImported) return rest
  return `import${names.length === 0 ? '' : `{${names.join(',')}}from`}"./${shared}";${rest}`
}
