/**
 * Reads the binaries of the native listener that the build ships: those for this platform, one for each version of Node.
 *
 * The npm package has binaries for every platform, published by a third party. A binary whose SHA-256 is not the one in
 * transport/native/binary-hashes.ts fails the build; the program checks it again when it starts.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './bundle.mjs'

const HASHES = 'transport/native/binary-hashes.ts'
const PACKAGE = 'node_modules/uWebSockets.js'

/** @param place the platform and the folder of the package */
export async function readListenerBinaries({
  platform = process.platform,
  arch = process.arch,
  folder = join(root, PACKAGE),
} = {}) {
  const own = Object.entries(await readHashes()).filter(([name]) =>
    name.startsWith(`uws_${platform}_${arch}_`),
  )
  return own.map(([name, expected]) => ({ name, content: readChecked(join(folder, name), expected) }))
}

/** Paths below the root; the build's stamp has them. */
export const listenerSources = (binaries) => [HASHES, ...binaries.map(({ name }) => `${PACKAGE}/${name}`)]

export async function readHashes() {
  const { transform } = await import('esbuild')
  const { code } = await transform(readFileSync(join(root, HASHES), 'utf8'), { loader: 'ts' })
  const { BINARY_HASHES } = await import(`data:text/javascript,${encodeURIComponent(code)}`)
  return BINARY_HASHES
}

function readChecked(file, expected) {
  const content = readFileSync(file)
  const hash = createHash('sha256').update(content).digest('hex')
  if (hash === expected) return content
  throw new Error(
    `${file} has the SHA-256 ${hash} instead of ${expected}: it is not the released binary; run: npm ci --ignore-scripts`,
  )
}
