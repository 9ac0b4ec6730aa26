/**
 * `node build/worker-image.mjs [--own-base] [--out FOLDER]`: builds the image of the worker with buildah, which needs no
 * daemon, and writes it as an OCI layout (`oci:FOLDER:VERSION` for skopeo and umoci).
 *
 * Everything stands in deploy/container/Containerfile. With `--own-base` its base image is replaced by one that is made
 * here, from Debian's packages and this machine's Node, for machines that reach no registry of images. Needs root.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { manifest, root } from './bundle.mjs'
import { makeWorkerPackage, writeWorkerPackage } from './worker-package.mjs'

const CONTAINERFILE = join(root, 'deploy', 'container', 'Containerfile')
const RELEASE = 'bookworm'
const IMAGE = `localhost/switchyard-worker:${manifest.version}`
const BASE = 'localhost/switchyard-base'

/** @returns the folder with the OCI layout, and the image in it as skopeo and umoci name it */
export async function buildWorkerImage({ ownBase = false, out = join(root, 'dist', 'worker-image') } = {}) {
  const work = mkdtempSync(join(tmpdir(), 'switchyard-image-'))
  const buildah = withBuildah(work)
  try {
    const context = join(work, 'context')
    await unpackPackage(join(context, 'worker'))
    if (ownBase) makeBase(work, buildah)
    const labels = { VERSION: manifest.version, SOURCE: sourceAddress(), REVISION: revision() }
    buildah('build', [
      ...Object.entries(labels).flatMap(([name, value]) => ['--build-arg', `${name}=${value}`]),
      ...(ownBase ? ['--from', BASE, '--pull-never'] : []),
      ...['--file', CONTAINERFILE, '--tag', IMAGE, context],
    ])
    rmSync(out, { recursive: true, force: true })
    buildah('push', [IMAGE, `oci:${out}:${manifest.version}`])
    return { folder: out, reference: `${out}:${manifest.version}` }
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

/** Images and layers lie in the folder of this build, and go with it. */
function withBuildah(work) {
  const storage = ['--root', join(work, 'storage'), '--runroot', join(work, 'run'), '--storage-driver', 'vfs']
  const env = { ...process.env, BUILDAH_ISOLATION: 'chroot' }
  return (command, args) => run('buildah', [...storage, command, ...args], env)
}

async function unpackPackage(folder) {
  const { content } = await makeWorkerPackage()
  mkdirSync(folder, { recursive: true })
  run('tar', ['-xzf', writeWorkerPackage(process.arch, content), '-C', folder, '--strip-components=1'])
}

/** Like node:24-bookworm-slim: a small Debian, Node in /usr/local/bin, and an ordinary user 1000 named node. */
function makeBase(work, buildah) {
  const tar = join(work, 'base.tar')
  const hooks = [
    `copy-in ${process.execPath} /usr/local/bin`,
    'chroot "$1" useradd --uid 1000 --user-group --create-home --shell /bin/bash node',
  ].map((hook) => `--customize-hook=${hook}`)
  run('mmdebstrap', ['--quiet', '--variant=minbase', '--include=ca-certificates', ...hooks, RELEASE, tar])
  const container = buildah('from', ['scratch']).trim()
  buildah('add', ['--quiet', container, tar, '/'])
  buildah('commit', ['--quiet', container, BASE])
  rmSync(tar)
}

const revision = () => {
  try {
    return run('git', ['-C', root, 'rev-parse', 'HEAD']).trim()
  } catch {
    return ''
  }
}
const sourceAddress = () => manifest.repository?.url ?? ''

/** Words of the programs go to standard error, because standard output names the result. */
function run(program, args, env = process.env) {
  return execFileSync(program, args, { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 2] })
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  try {
    const { values } = parseArgs({ options: { 'own-base': { type: 'boolean' }, out: { type: 'string' } } })
    const out = values.out === undefined ? {} : { out: resolve(values.out) }
    const { reference } = await buildWorkerImage({ ownBase: values['own-base'] === true, ...out })
    console.log(`oci:${reference}`)
  } catch (error) {
    console.error(`worker-image: ${error.message}`)
    process.exitCode = 1
  }
}
