/**
 * Bundles the pages of web/ for browsers: scripts and a stylesheet with the hash of their content in their names, and
 * the documents that load them.
 *
 * The metafile of the bundle is kept beside the pages, because a test holds the first load to its size.
 */
import { readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { root } from './bundle.mjs'

export const DASHBOARD = 'web/dashboard'
/** Files that are served as they are. */
const PLAIN_FILES = ['icon.svg', 'manifest.webmanifest']

/**
 * The files of the dashboard, by their path below the folder that is served, and the sources that they are made of.
 */
export async function bundleDashboard() {
  const { build: bundle } = await import('esbuild')
  const { outputFiles, metafile } = await bundle({
    absWorkingDir: root,
    entryPoints: { app: `${DASHBOARD}/main.tsx`, style: `${DASHBOARD}/dashboard.css` },
    outdir: 'out',
    bundle: true,
    minify: true,
    splitting: true,
    format: 'esm',
    target: 'es2022',
    supported: { 'top-level-await': true },
    jsx: 'automatic',
    jsxImportSource: 'preact',
    entryNames: 'assets/[name]-[hash]',
    chunkNames: 'assets/[name]-[hash]',
    assetNames: 'assets/[name]-[hash]',
    legalComments: 'none',
    logLevel: 'warning',
    metafile: true,
    write: false,
  })
  const files = outputFiles.map(({ path, contents }) => ({ name: `assets/${basename(path)}`, contents }))
  const nameOf = (pattern) => files.find(({ name }) => pattern.test(name)).name
  const page = read('index.html')
    .replace('STYLESHEET', `/${nameOf(/^assets\/style-.*\.css$/)}`)
    .replace('SCRIPT', `/${nameOf(/^assets\/app-.*\.js$/)}`)
  const plain = PLAIN_FILES.map((name) => ({ name, contents: read(name) }))
  return {
    files: [...files, ...plain, { name: 'index.html', contents: page }],
    metafile,
    sources: [
      ...Object.keys(metafile.inputs),
      ...['index.html', ...PLAIN_FILES].map((name) => `${DASHBOARD}/${name}`),
      'build/pages.mjs',
    ],
  }
}

const read = (name) => readFileSync(join(root, DASHBOARD, name), 'utf8')
