/**
 * `loadNativeLibrary` loads the binary of uWebSockets.js for this machine, if its SHA-256 is a known one.
 *
 * The npm package is a copy of the author's binaries that a third party has published, so a binary with another hash is
 * never loaded. `binary-hashes.ts` names every supported binary; the build ships no other.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { BINARY_HASHES } from './binary-hashes.ts'
import type { NativeLibrary } from './native-listener.ts'

/** The machine and the Node that run this program. */
export interface NativePlatform {
  /** Such as `linux`. */
  readonly platform: string
  readonly arch: string
  /** Node's version of the interface for add-ons, such as `115`. */
  readonly modules: string
  /** Such as `22.23.3`. */
  readonly node: string
}

export type NativeLoad =
  | { readonly ok: true; readonly library: NativeLibrary }
  /** `alteredFile`: a binary whose hash is not the known one. */
  | { readonly ok: false; readonly reason: string; readonly alteredFile?: string }

/** @param folder the folder with the binaries */
export function loadNativeLibrary(folder: string, on: NativePlatform, known = BINARY_HASHES): NativeLoad {
  const name = binaryName(on)
  const expected = known[name]
  if (expected === undefined)
    return refused(`the native listener has no build for Node ${on.node} on ${on.platform}-${on.arch}`)
  const file = join(folder, name)
  const hash = hashOf(file)
  if (hash === undefined) return refused(`${file} can't be read`)
  if (hash !== expected)
    return { ...refused(`the binary of the native listener was altered: ${file}`), alteredFile: file }
  try {
    return { ok: true, library: createRequire(import.meta.url)(file) }
  } catch (error) {
    return refused(explainFailure(String(error)))
  }
}

export const binaryName = ({ platform, arch, modules }: NativePlatform): string =>
  `uws_${platform}_${arch}_${modules}.node`

const refused = (reason: string) => ({ ok: false, reason }) as const

function hashOf(file: string): string | undefined {
  try {
    return createHash('sha256').update(readFileSync(file)).digest('hex')
  } catch {
    return undefined
  }
}

/** The loader of a system with an older glibc names the version that the binary needs. */
function explainFailure(error: string): string {
  const glibc = /GLIBC_([\d.]+)' not found/.exec(error)?.[1]
  if (glibc !== undefined) return `the native listener needs glibc ${glibc} or Node 20`
  return `the native listener does not load: ${error.split('\n')[0]}`
}
