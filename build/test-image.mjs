/**
 * `npm run test:image`: builds the image of the worker on a base of its own, and runs the tests of containers with it.
 *
 * Not part of `npm test`, because the base comes from Debian's archive. Needs root, mmdebstrap, buildah, umoci and runc.
 * Arguments go to Jest.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { root } from './bundle.mjs'
import { buildWorkerImage } from './worker-image.mjs'

const work = mkdtempSync(join(tmpdir(), 'switchyard-test-image-'))
try {
  const began = Date.now()
  const image = await buildWorkerImage({ ownBase: true, out: join(work, 'image') })
  const bundle = join(work, 'bundle')
  execFileSync('umoci', ['unpack', '--image', image.reference, bundle], { stdio: ['ignore', 2, 2] })
  // Users of the container's own namespace have to pass.
  for (const folder of [work, bundle]) chmodSync(folder, 0o711)
  console.error(
    `the image took ${Math.round((Date.now() - began) / 1000)} s, ${sizeOf(image.folder)} packed, ${sizeOf(bundle)} unpacked`,
  )
  const jest = ['run', '-s', 'jest', '--', 'test/system/worker-container', ...process.argv.slice(2)]
  const env = { ...process.env, SWITCHYARD_WORKER_IMAGE: bundle }
  process.exitCode = spawnSync('npm', jest, { cwd: root, env, stdio: 'inherit' }).status ?? 1
} finally {
  rmSync(work, { recursive: true, force: true })
}

function sizeOf(folder) {
  const [kib] = execFileSync('du', ['-sk', folder], { encoding: 'utf8' }).split('\t')
  return `${Math.round(Number(kib) / 1024)} MiB`
}
