/**
 * `npm run build`: bundles bin/switchyard.ts into dist/bin/switchyard.js, and each program that runs inside a
 * sandbox into one file of dist/inside/ with a command beside it.
 *
 * The client commands are one file, so that they start in a moment; it loads a program such as the host only when that
 * is started. The client is bundled for programs of others, for Node and for browsers. The build replaces dist/
 * only after all bundles succeeded, and the binaries of the native listener are the released ones. On Linux it also makes the worker package for this machine's architecture.
 */
import { execFileSync } from 'node:child_process'
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
import { dirname, join, relative } from 'node:path'
import { pathToFileURL } from 'node:url'
import { asciiOf, isFresh, options, root, writeStamp } from './bundle.mjs'
import { compilePrograms } from './compile-programs.mjs'
import { listenerSources, readListenerBinaries } from './listener-binaries.mjs'
import { bundleDashboard, bundleInspector, settingList } from './pages.mjs'
import { bundleSandboxPrograms, sandboxPrograms } from './sandbox-programs.mjs'
import { isForThisMachine, makeWorkerPackage, writeWorkerPackage } from './worker-package.mjs'

const dist = join(root, 'dist')
export const program = join(dist, 'bin', 'switchyard.js')
const stamp = join(dist, 'stamp.json')
const inside = join(dist, 'inside')

export function isBuilt() {
  return existsSync(program) && isFresh(stamp, sandboxPrograms())
}

export async function build() {
  const { build: bundle } = await import('esbuild')
  const terminalAddon = findTerminalAddon()
  const listenerBinaries = await readListenerBinaries()
  const sandboxBundles = bundleSandboxPrograms()
  const dashboard = bundleDashboard()
  const inspectorPage = bundleInspector()
  const workerPackage = isForThisMachine ? makeWorkerPackage() : undefined
  const bundles = await Promise.all([
    bundle(launcherOptions()),
    bundle(commandOptions()),
    bundle({
      ...options,
      entryPoints: entriesOf(Object.keys(programs).filter((name) => !compiledPrograms.includes(name))),
      outdir: join(dist, 'bin', 'programs'),
      splitting: true,
      plugins: [settingList],
      chunkNames: 'parts/[name]-[hash]',
      write: false,
    }),
    bundle(compiledProgramOptions()),
    ...Object.keys(clientParts).map((name) => bundle(clientOptions(name))),
  ])
  const forSandboxes = await sandboxBundles
  rmSync(dist, { recursive: true, force: true })
  for (const { path, contents } of bundles.flatMap(({ outputFiles }) => outputFiles))
    write(path, /\.c?js$/.test(path) ? await asciiOf(contents) : contents)
  makeCommand(program)
  write(join(dist, 'bin', 'package.json'), '{ "type": "commonjs" }\n')
  write(join(dist, 'bin', 'programs', 'package.json'), '{ "type": "module" }\n')
  for (const { name, content } of forSandboxes.files) write(join(inside, name), content)
  copyFileSync(terminalAddon, join(inside, 'pty.node'))
  makeWorldReadable(inside)
  for (const { name, content } of listenerBinaries) write(join(dist, 'listener', name), content)
  const pages = await dashboard
  for (const { name, contents } of pages.files) write(join(dist, 'web', 'dashboard', name), contents)
  const inspector = await inspectorPage
  for (const { name, contents } of inspector.files) write(join(dist, 'web', 'inspector', name), contents)
  write(join(dist, 'web', 'inspector.meta.json'), JSON.stringify(inspector.metafile))
  write(join(dist, 'web', 'dashboard.meta.json'), JSON.stringify(pages.metafile))
  const packaged = await workerPackage
  if (packaged !== undefined) writeWorkerPackage(process.arch, packaged.content)
  await compilePrograms(program)
  const inputs = Object.assign({}, ...bundles.map(({ metafile }) => metafile.inputs))
  const others = [
    ...forSandboxes.sources,
    ...pages.sources,
    ...inspector.sources,
    ...(packaged?.sources ?? []),
    ...listenerSources(listenerBinaries),
  ]
  for (const source of others) inputs[source] = {}
  for (const name of Object.keys(clientParts)) delete inputs[`client-for-${name}.ts`]
  for (const name of Object.keys(programs)) delete inputs[`program:${name}`]
  writeStamp(stamp, { inputs: { ...inputs, [relative(root, terminalAddon)]: {} } })
}

function write(path, contents) {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, contents)
}

// ---- the command -----------------------------------------------------------------------------------------------------

/**
 * The files of commands that load much: libraries, schemas, native add-ons. All other commands are clients, and are bundled
 * together. A file exports the function of its command under the name of the program.
 */
const programs = {
  serve: 'bin/programs/serve/serve.ts',
  worker: 'bin/programs/worker/worker.ts',
  supervise: 'bin/programs/supervise/supervise.ts',
  'own-drain': 'bin/programs/worker/own-drain.ts',
  dashboard: 'bin/pages/serve-page.ts',
  inspect: 'bin/pages/inspect.ts',
  quickstart: 'bin/programs/quickstart/quickstart.ts',
  'oauth-helper': 'bin/programs/oauth-helper/oauth-helper.ts',
  mcp: 'bin/cli/mcp/mcp.ts',
  completion: 'bin/cli/help/completion.ts',
  doctor: 'bin/cli/doctor/doctor.ts',
  'check-data': 'bin/cli/data/check-data.ts',
  audit: 'bin/cli/data/audit.ts',
  init: 'bin/cli/init/init.ts',
  'service-install': 'bin/cli/service/service-install.ts',
  'answer-faults': 'bin/cli/command/answer-faults.ts',
  'config-settings': 'bin/cli/settings/config-settings.ts',
  'config-edit': 'bin/cli/settings/config-edit.ts',
}
const programAt = new Map(Object.entries(programs).map(([name, path]) => [join(root, path), name]))
/** Each is one CommonJS file with compiled code; modules without it cost half as much processor time again. */
const compiledPrograms = ['serve', 'worker', 'doctor']

const entriesOf = (names) => Object.fromEntries(names.map((name) => [name, programs[name]]))

function launcherOptions() {
  const { banner: _, ...plain } = options
  return {
    ...plain,
    entryPoints: ['bin/launcher.ts'],
    outfile: program,
    format: 'cjs',
    minify: true,
    write: false,
  }
}

/**
 * All client commands are one CommonJS file, which starts in two thirds of the processor time that modules and their
 * parts need. It is a function, which `bin/launcher.ts` calls. Comments and spaces would be read at each start.
 */
function commandOptions() {
  const loadPrograms = {
    name: 'programs',
    setup(bundling) {
      bundling.onResolve({ filter: /^\..*\.ts$/ }, ({ path, resolveDir, kind }) => {
        const name = kind === 'dynamic-import' ? programAt.get(join(resolveDir, path)) : undefined
        return name === undefined ? undefined : { path: name, namespace: 'program' }
      })
      bundling.onLoad({ filter: /./, namespace: 'program' }, ({ path: name }) => {
        const command = name.replace(/-(.)/g, (_, letter) => letter.toUpperCase())
        const contents = `export const ${command} = async (...args) => (await loadProgram('${name}')).${command}(...args)`
        return { contents, loader: 'js' }
      })
    },
  }
  // Commander loads it for commands that are programs of their own.
  const loadLess = {
    name: 'less',
    setup(bundling) {
      bundling.onResolve({ filter: /^node:child_process$/ }, ({ importer }) =>
        importer.includes('/node_modules/commander/') ? absentModule : undefined,
      )
    },
  }
  return {
    ...options,
    entryPoints: ['bin/switchyard.ts'],
    outfile: join(dist, 'bin', 'client-commands.js'),
    ...asFunction,
    minifyWhitespace: true,
    plugins: [loadPrograms, loadLess],
    write: false,
  }
}

const absentModule = { path: join(root, 'build', 'absent-module.cjs') }

/** The launcher calls what is bundled in this way. */
const asFunction = {
  format: 'cjs',
  banner: { js: '(function (exports, require, module, __filename, __dirname, loadProgram) {' },
  footer: { js: '})' },
  // Only the launcher can import.
  supported: { 'dynamic-import': false },
}

function compiledProgramOptions() {
  return {
    ...options,
    ...asFunction,
    entryPoints: entriesOf(compiledPrograms),
    outdir: join(dist, 'bin', 'programs'),
    outExtension: { '.js': '.cjs' },
    define: { ...options.define, 'import.meta.url': '__filename' },
    plugins: [loadLessOfUndici],
    write: false,
  }
}

/** No program uses these parts of undici. Its cookies also load Node's own copy of undici, which costs more than all of them. */
const loadLessOfUndici = {
  name: 'less of undici',
  setup(bundling) {
    const unused = /^\.\/lib\/(mock|interceptor|cache|web\/cookies|web\/eventsource)(\/|$)/
    bundling.onResolve({ filter: unused }, ({ importer }) =>
      importer.endsWith('/undici/index.js') ? absentModule : undefined,
    )
  },
}

// ---- programs inside a sandbox -------------------------------------------------------------------------------------

/** The native add-on of `terminal`, which has a package for each platform. */
function findTerminalAddon() {
  const addonPackage = `@lydell/node-pty-${process.platform}-${process.arch}`
  try {
    const { resolve } = createRequire(join(root, 'node_modules', '@lydell', 'node-pty', 'package.json'))
    return resolve(`${addonPackage}/pty.node`)
  } catch {
    throw new Error(`${addonPackage} is not installed, and terminals need it; run: npm ci --include=optional`)
  }
}

/** Independent of the umask, because a root worker's sandbox runs as another user. */
function makeWorldReadable(folder) {
  for (const path of [dist, folder, ...readdirSync(folder).map((name) => join(folder, name))])
    chmodSync(path, 0o755)
}

// ---- the client for other programs ---------------------------------------------------------------------------------

/** The files of client/ that `switchyard/client` and `switchyard/client/browser` export. */
const shared = ['client', 'connection', 'dashboard-feed', 'errors', 'host-request', 'run-events']
const clientParts = {
  node: [...shared, 'find-host', 'node-http', 'node-socket'],
  browser: [...shared, 'browser'],
}

const exportsOf = (name, folder) =>
  clientParts[name].map((part) => `export * from '${folder}/${part}.ts'\n`).join('')

function clientOptions(name) {
  const { banner: _, external: __, ...plain } = options
  return {
    ...plain,
    stdin: { contents: exportsOf(name, './client'), resolveDir: root, sourcefile: `client-for-${name}.ts` },
    outfile: join(dist, 'client', `${name}.js`),
    platform: name === 'node' ? 'node' : 'browser',
    sourcemap: false,
    write: false,
  }
}

/** Writes the declarations of the client, which nobody needs who only runs switchyard. */
export function declareClient(folder = join(dist, 'client')) {
  const project = join(folder, 'tsconfig.json')
  const compilerOptions = {
    noEmit: false,
    declaration: true,
    emitDeclarationOnly: true,
    // `npm run types` checks the sources; here checking them would take five times as long as writing.
    noCheck: true,
    outDir: join(folder, 'types'),
    rootDir: root,
    typeRoots: [join(root, 'node_modules', '@types')],
  }
  const settings = { extends: join(root, 'tsconfig.json'), compilerOptions, include: [join(root, 'client')] }
  write(project, JSON.stringify(settings))
  execFileSync(join(root, 'node_modules', '.bin', 'tsc'), ['-p', project], { stdio: 'inherit' })
  rmSync(project)
  for (const name of Object.keys(clientParts))
    write(join(folder, `${name}.d.ts`), exportsOf(name, './types/client'))
}

function makeCommand(path) {
  const text = readFileSync(path, 'utf8')
  if (!text.startsWith('#!')) writeFileSync(path, `#!/usr/bin/env node\n${text}`)
  chmodSync(path, 0o755)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  try {
    await build()
    declareClient()
  } catch (error) {
    // esbuild and the compiler have printed their own messages with file and line.
    if (error.errors === undefined && error.status === undefined) console.error(error)
    process.exitCode = 1
  }
}
