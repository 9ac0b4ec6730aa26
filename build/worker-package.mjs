/**
 * `node build/worker-package.mjs [--arch x64|arm64] [--tarballs FOLDER]`: writes the worker as one archive into
 * dist/worker-package/, for Linux machines that have Node and no checkout.
 *
 * The same sources give the same bytes. The archive holds the bundled worker, the programs for the inside of sandboxes
 * and two native add-ons. Those of another architecture come from the package registry, or from a folder with the
 * tarballs of `npm pack`; either way package-lock.json says what they must be.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs, promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { asciiOf, manifest, options, root } from './bundle.mjs'
import { formatNotices } from './notices.mjs'
import { bundleSandboxPrograms } from './sandbox-programs.mjs'
import { formatSbom, packagesIn } from './sbom.mjs'
import { createTar } from './tar.mjs'

const ARCHITECTURES = ['x64', 'arm64']
const TARBALL_BYTES_MAX = 64 * 1024 * 1024
/** Where an archive of this architecture lies once it is built. */
export const archiveOf = (arch) => join(root, 'dist', 'worker-package', `${folderName}-linux-${arch}.tar.gz`)
/** The one folder inside of it. */
const folderName = `switchyard-worker-${manifest.version}`

/**
 * The native add-ons by their place in the package. The database's one for Node-API loads in every version of Node,
 * and is smaller than those for one version.
 */
const ADDONS = {
  'native/lmdb.node': { of: (arch) => `@lmdb/lmdb-linux-${arch}`, file: 'node.napi.glibc.node' },
  'inside/pty.node': { of: (arch) => `@lydell/node-pty-linux-${arch}`, file: 'pty.node' },
}

/** Whether `npm run build` makes the package: its add-ons are installed, because this machine needs them as well. */
export const isForThisMachine = process.platform === 'linux' && ARCHITECTURES.includes(process.arch)

/**
 * Makes the archive in memory, and names the sources that it was made from.
 *
 * @param tarballs a folder with the tarballs of native packages; without it those that are not installed are fetched
 * @param lock what package-lock.json holds
 */
export async function makeWorkerPackage({ arch = process.arch, tarballs, lock = readLock() } = {}) {
  if (!ARCHITECTURES.includes(arch))
    throw new Error(`there is no worker package for ${arch}, only for ${ARCHITECTURES.join(' and ')}`)
  const [bundle, database, sandbox] = await Promise.all([
    bundleWorker(),
    copyDatabase(),
    bundleSandboxPrograms(),
  ])
  const addons = Object.entries(ADDONS).map(([name, { of, file }]) => ({
    name,
    content: readAddon({ packageName: of(arch), file, tarballs, lock }),
  }))
  const sources = [...bundle.sources, ...sandbox.sources, ...database.map(({ name }) => name)]
  const native = Object.values(ADDONS).map(({ of }) => of(arch))
  const known = { packages: { ...readLock().packages, ...lock.packages } }
  const files = [
    { name: 'package.json', content: describePackage(arch) },
    { name: 'THIRD-PARTY.txt', content: Buffer.from(formatNotices(sources)) },
    {
      name: 'sbom.cdx.json',
      content: Buffer.from(formatSbom([...packagesIn(sources), ...native].sort(), known)),
    },
    ...bundle.files,
    ...database,
    ...sandbox.files.map(({ name, content }) => ({ name: `inside/${name}`, content })),
    ...addons,
  ]
  return { content: await promisify(gzip)(createTar(withFolders(files))), sources: bundle.sources }
}

/** Writes the archive where it belongs, and returns its path. */
export function writeWorkerPackage(arch, content) {
  const archive = archiveOf(arch)
  mkdirSync(dirname(archive), { recursive: true })
  // Another process may be copying the archive of the same name.
  writeFileSync(`${archive}.${process.pid}`, content)
  renameSync(`${archive}.${process.pid}`, archive)
  return archive
}

const describePackage = (arch) =>
  Buffer.from(
    `${JSON.stringify(
      {
        name: 'switchyard-worker',
        version: manifest.version,
        license: manifest.license,
        private: true,
        type: 'module',
        bin: { 'switchyard-worker': 'bin/switchyard-worker.mjs' },
        os: ['linux'],
        cpu: [arch],
        engines: { node: '>=20.11' },
      },
      undefined,
      2,
    )}\n`,
  )

/** Adds the folders before what lies in them. Everybody may read all of it: a sandbox may run as another user. */
function withFolders(files) {
  const named = files.map(({ name, content }) => ({
    name: `${folderName}/${name}`,
    content,
    mode: /^(bin\/switchyard-worker\.mjs|inside\/.*)$/.test(name) ? 0o755 : 0o644,
  }))
  const folders = new Set(named.flatMap(({ name }) => foldersAbove(name)))
  const all = [...[...folders].map((name) => ({ name, mode: 0o755 })), ...named]
  return all.sort((one, other) => (one.name < other.name ? -1 : 1))
}

const foldersAbove = (name) =>
  name
    .split('/')
    .slice(0, -1)
    .map((_, index, parts) => `${parts.slice(0, index + 1).join('/')}/`)

// ---- bundles -------------------------------------------------------------------------------------------------------

async function bundleWorker() {
  const { build: bundle } = await import('esbuild')
  const plain = { ...options, external: [], sourcemap: false, legalComments: 'none', write: false }
  const [program, pretty] = await Promise.all([
    bundle({
      ...plain,
      entryPoints: { program: 'bin/switchyard-worker.ts' },
      outdir: join(root, 'bin'),
      outExtension: { '.js': '.mjs' },
      splitting: true,
      chunkNames: 'parts/[name]-[hash]',
      external: ['lmdb'],
      plugins: [refuseNativePackages],
    }),
    // The log loads this one by its name, and only for people.
    bundle({ ...plain, banner: {}, entryPoints: ['pino-pretty'], outfile: 'index.js', format: 'cjs' }),
  ])
  for (const { text } of program.outputFiles) {
    const [, missing] = /import\("[./]*\/commands\/([\w-]+)\.ts"\)/.exec(text) ?? []
    if (missing !== undefined)
      throw new Error(
        `a command of the package loads ${missing}; add it to COMMANDS in build/worker-package.mjs`,
      )
  }
  const starter = readFileSync(join(root, 'build', 'worker-starter.mjs'))
  const [{ contents: prettyText }] = pretty.outputFiles
  const parts = program.outputFiles.map(async ({ path, contents }) => ({
    name: `bin/${path.slice(join(root, 'bin').length + 1)}`,
    content: Buffer.from(await asciiOf(contents)),
  }))
  return {
    files: [
      { name: 'bin/switchyard-worker.mjs', content: starter },
      ...(await Promise.all(parts)),
      { name: 'node_modules/pino-pretty/index.js', content: Buffer.from(prettyText) },
      { name: 'node_modules/pino-pretty/package.json', content: Buffer.from('{ "type": "commonjs" }\n') },
    ],
    sources: [program, pretty].flatMap(({ metafile }) => Object.keys(metafile.inputs)),
  }
}

// ---- the database --------------------------------------------------------------------------------------------------

/**
 * The files of lmdb as they are installed: ordered-binary evaluates code that names its own variables, which a bundle
 * renames.
 */
async function copyDatabase() {
  const { build: bundle } = await import('esbuild')
  const { metafile } = await bundle({
    ...options,
    stdin: { contents: "import 'lmdb'", resolveDir: root, sourcefile: 'database.js' },
    external: [LOADER, 'msgpackr-extract'],
    sourcemap: false,
    legalComments: 'none',
    write: false,
  })
  const sources = Object.keys(metafile.inputs).filter((path) => path.startsWith('node_modules/'))
  const manifests = sources.map(
    (path) => `${/^node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0]}/package.json`,
  )
  const loader = `node_modules/${LOADER}`
  return [
    ...[...sources, ...new Set(manifests)].map((name) => ({ name, content: readFileSync(join(root, name)) })),
    { name: `${loader}/index.js`, content: Buffer.from(LOAD_ADDON) },
    { name: `${loader}/package.json`, content: Buffer.from('{ "type": "commonjs" }\n') },
  ]
}

/** lmdb asks this package for its add-on, which looks for one through the folders of an installation. */
const LOADER = 'node-gyp-build-optional-packages'
const LOAD_ADDON = `module.exports = () => {
  try {
    return require('../../native/lmdb.node')
  } catch (error) {
    const reason = String(error?.message ?? error).split('\\n')[0]
    throw Object.assign(new Error('the database of the worker does not load here: ' + reason), {
      isExit: true,
      code: 69,
      cure: 'use a Linux with glibc 2.34 or newer, like Debian 12 or Ubuntu 22.04',
    })
  }
}
`

/** A worker needs none of these; a new import of one must not make the package many times as large. */
const refuseNativePackages = {
  name: 'no other native package',
  setup(bundling) {
    bundling.onResolve({ filter: /^(uWebSockets\.js|ssh2|@lydell\/node-pty)$/ }, ({ path, importer }) => ({
      errors: [{ text: `the worker package must not need ${path}, which ${importer} imports` }],
    }))
  },
}

// ---- native add-ons ------------------------------------------------------------------------------------------------

function readAddon({ packageName, file, tarballs, lock }) {
  const installed = join(root, 'node_modules', packageName, file)
  if (tarballs === undefined && existsSync(installed)) return readFileSync(installed)
  const { version, integrity } = lock.packages[`node_modules/${packageName}`] ?? {}
  if (version === undefined) throw new Error(`package-lock.json does not name ${packageName}`)
  const spec = `${packageName}@${version}`
  const tarball = tarballs === undefined ? fetchTarball(spec) : readTarball(tarballs, spec)
  const [algorithm = '', expected] = integrity.split(/-(.*)/)
  const found = createHash(algorithm).update(tarball).digest('base64')
  if (found !== expected)
    throw new Error(
      `the tarball of ${spec} is not what package-lock.json names: ${algorithm}-${found} instead of ${integrity}`,
    )
  const tar = ['-xzO', '-f', '-', `package/${file}`]
  return execFileSync('tar', tar, { input: tarball, maxBuffer: TARBALL_BYTES_MAX })
}

const tarballName = (spec) => `${spec.replace('@', '').replace('/', '-').replace('@', '-')}.tgz`

function readTarball(folder, spec) {
  const path = join(folder, tarballName(spec))
  if (!existsSync(path))
    throw new Error(`${path} is missing; get it with: npm pack ${spec} --pack-destination ${folder}`)
  return readFileSync(path)
}

/** npm knows the registry of this machine, its proxy and its credentials. */
function fetchTarball(spec) {
  const folder = mkdtempSync(join(tmpdir(), 'switchyard-tarball-'))
  try {
    execFileSync('npm', ['pack', spec, '--pack-destination', folder, '--silent'], {
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    return readTarball(folder, spec)
  } catch {
    throw new Error(
      `npm can't fetch ${spec}; on a machine with a network run: npm pack ${spec}, and name its folder with --tarballs`,
    )
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const readLock = () => JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))

// ---- the command ---------------------------------------------------------------------------------------------------

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  try {
    const { values } = parseArgs({ options: { arch: { type: 'string' }, tarballs: { type: 'string' } } })
    const { arch = process.arch, tarballs } = values
    const { content } = await makeWorkerPackage({ arch, tarballs })
    console.log(writeWorkerPackage(arch, content))
  } catch (error) {
    // esbuild has printed its own messages with file and line.
    if (error.errors === undefined) console.error(`worker-package: ${error.message}`)
    process.exitCode = 1
  }
}
