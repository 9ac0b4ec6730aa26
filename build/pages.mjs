/**
 * Bundles the pages of web/ for browsers: scripts and a stylesheet with the hash of their content in their names, and
 * the documents that load them.
 *
 * Compressed forms lie beside each file that gets smaller by it, for the page's listener to send.
 *
 * The metafile of the bundle is kept beside the pages, because a test holds the first load to its size.
 */
import { readFileSync } from 'node:fs'
import { basename, extname, join } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { root } from './bundle.mjs'
import { mergeFirstLoad } from './merge-first-load.mjs'

export const DASHBOARD = 'web/dashboard'
export const INSPECTOR = 'web/inspector'
/** Drawn by `npm run machines`. */
const CHARTS = 'docs/machines/charts.json'
/** Files that are served as they are. */
const PLAIN_FILES = ['icon.svg', 'icon-192.png', 'icon-512.png', 'manifest.webmanifest']
const SERVICE_WORKER = 'web/service-worker/service-worker.ts'

const PAGE_OPTIONS = {
  absWorkingDir: root,
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
}

const filesOf = (outputFiles) =>
  outputFiles.map(({ path, contents }) => ({ name: `assets/${basename(path)}`, contents }))

const assetName = (files, entry, extension) =>
  `/${files.find(({ name }) => new RegExp(`^assets/${entry}-[A-Z0-9]+\\.${extension}$`).test(name)).name}`

/** Pictures are compressed already. */
const COMPRESSED_TYPES = ['.js', '.css', '.html', '.svg', '.json', '.webmanifest']
const COMPRESSIONS = [
  {
    extension: 'br',
    compress: (bytes) =>
      promisify(brotliCompress)(bytes, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.byteLength } }),
  },
  { extension: 'gz', compress: (bytes) => promisify(gzip)(bytes, { level: constants.Z_BEST_COMPRESSION }) },
]

/** The files, and behind each its compressed forms. */
async function withCompressed(files) {
  const forms = await Promise.all(
    files.map(async (file) => {
      if (!COMPRESSED_TYPES.includes(extname(file.name))) return [file]
      const bytes = Buffer.from(file.contents)
      const compressed = await Promise.all(
        COMPRESSIONS.map(async ({ extension, compress }) => ({
          name: `${file.name}.${extension}`,
          contents: await compress(bytes),
        })),
      )
      return [file, ...compressed.filter(({ contents }) => contents.byteLength < bytes.byteLength)]
    }),
  )
  return forms.flat()
}

/** The files of the inspector, by their path below the folder that is served, and the sources that they are made of. */
export async function bundleInspector() {
  const { build: bundle } = await import('esbuild')
  const { outputFiles, metafile } = await bundle({
    ...PAGE_OPTIONS,
    entryPoints: { app: `${INSPECTOR}/main.tsx`, style: `${INSPECTOR}/inspector.css` },
  })
  const files = filesOf(outputFiles)
  const page = readFileSync(join(root, INSPECTOR, 'index.html'), 'utf8')
    .replace('STYLESHEET', assetName(files, 'style', 'css'))
    .replace('SCRIPT', assetName(files, 'app', 'js'))
  return {
    files: await withCompressed([
      ...files,
      { name: 'index.html', contents: page },
      { name: 'icon.svg', contents: read('icon.svg') },
      { name: 'charts.json', contents: readFileSync(join(root, CHARTS)) },
    ]),
    metafile,
    sources: [...Object.keys(metafile.inputs), `${INSPECTOR}/index.html`, CHARTS, 'build/pages.mjs'],
  }
}

/**
 * The files of the dashboard, by their path below the folder that is served, and the sources that they are made of.
 */
export async function bundleDashboard() {
  const { build: bundle } = await import('esbuild')
  const bundled = await bundle({
    entryPoints: {
      app: `${DASHBOARD}/main.tsx`,
      style: `${DASHBOARD}/dashboard.css`,
      pages: `${DASHBOARD}/pages.css`,
      terminal: `${DASHBOARD}/terminal/terminal.ts`,
      'terminal-style': `${DASHBOARD}/terminal/terminal.css`,
    },
    ...PAGE_OPTIONS,
    plugins: [settingList],
  })
  const merged = await mergeFirstLoad(
    { files: filesOf(bundled.outputFiles), metafile: bundled.metafile },
    firstLoad(bundled.metafile),
  )
  const { files, metafile } = await mergeFirstLoad(merged, loadOf(merged.metafile, SECOND))
  const nameOf = (entry, extension) => assetName(files, entry, extension)
  const documentOf = (path, entry, styles) =>
    read(path)
      .toString()
      .replace('PAGE-STYLES', nameOf('pages', 'css'))
      .replace('STYLESHEET', nameOf(styles, 'css'))
      .replace('SCRIPT', nameOf(entry, 'js'))
  const preloads = firstLoad(metafile)
    .filter((name) => name.endsWith('.js'))
    .map((name) => `<link rel="modulepreload" href="/${name}" />`)
  const page = documentOf('index.html', 'app', 'style').replace(
    '</head>',
    `  ${preloads.join('\n    ')}\n  </head>`,
  )
  const terminal = documentOf('terminal/terminal.html', 'terminal', 'terminal-style')
  const first = firstLoad(metafile)
  const worker = await bundle({
    absWorkingDir: root,
    entryPoints: [SERVICE_WORKER],
    bundle: true,
    minify: true,
    format: 'iife',
    target: 'es2022',
    define: { SHELL_FILES: JSON.stringify(['/index.html', ...first.map((name) => `/${name}`)]) },
    logLevel: 'warning',
    write: false,
  })
  const plain = PLAIN_FILES.map((name) => ({ name, contents: read(name) }))
  return {
    files: await withCompressed([
      ...files,
      ...plain,
      { name: 'index.html', contents: page },
      { name: 'terminal.html', contents: terminal },
      { name: 'service-worker.js', contents: worker.outputFiles[0].contents },
    ]),
    metafile,
    sources: [
      ...Object.keys(metafile.inputs),
      ...['index.html', 'terminal/terminal.html', ...PLAIN_FILES].map((name) => `${DASHBOARD}/${name}`),
      SERVICE_WORKER,
      'build/pages.mjs',
      'build/merge-first-load.mjs',
    ],
  }
}

/** The list of settings is made of the configuration's schema, whose library is too large for a page and for a command. */
const SETTING_LIST = 'protocol/setting-list.ts'
export const settingList = {
  name: 'setting-list',
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]protocol[\\/]setting-list\.ts$/ }, async () => {
      const { outputFiles } = await bundleSettingList()
      const { SETTING_LIST: list } = await import(
        `data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString('base64')}`
      )
      return { contents: `export const SETTING_LIST = ${JSON.stringify(list)}`, loader: 'js' }
    })
  },
}

async function bundleSettingList() {
  const { build: bundle } = await import('esbuild')
  return bundle({
    absWorkingDir: root,
    entryPoints: [SETTING_LIST],
    bundle: true,
    format: 'esm',
    platform: 'node',
    logLevel: 'warning',
    metafile: true,
    write: false,
  })
}

const read = (name) => readFileSync(join(root, DASHBOARD, name))

/**
 * The scripts and the stylesheet that the page needs before it can draw: the entries and what they import at once.
 *
 * @param metafile of the bundle of a page
 */
const FIRST = [
  `${DASHBOARD}/main.tsx`,
  `${DASHBOARD}/dashboard.css`,
  `${INSPECTOR}/main.tsx`,
  `${INSPECTOR}/inspector.css`,
]

/** Parts that every page loads at once after the first ones, and the overview's. */
const SECOND = [
  'state/read-missing-runs.ts',
  'state/follow-polls.ts',
  'shell/installed-app.ts',
  'shell/palette-list.tsx',
  'costs/spent-today-link.tsx',
  'overview/row-keys.tsx',
  '../../client/newest-line.ts',
].map((name) => join(DASHBOARD, name))

export const firstLoad = (metafile) => loadOf(metafile, FIRST)

/** The entries and what they import at once. */
function loadOf({ outputs }, entries) {
  const names = new Set()
  const add = (path) => {
    if (names.has(path)) return
    names.add(path)
    for (const { path: imported, kind } of outputs[path].imports) if (kind !== 'dynamic-import') add(imported)
  }
  for (const [path, { entryPoint }] of Object.entries(outputs)) if (entries.includes(entryPoint)) add(path)
  return [...names].map((path) => `assets/${basename(path)}`)
}
