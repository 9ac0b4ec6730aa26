/** Copies the checkout without anything that a start leaves in it, like a new clone after `npm ci`, built or not. */
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** `test` is not needed to start, and `node_modules` is shared. */
const LEFT_OUT = ['node_modules', 'coverage', '.git', '.data', '.agents', '.nodes', 'test', '.stories']

export interface FreshCheckout {
  readonly folder: string
  /** For programs that write to the home folder. */
  readonly home: string
  /** For the sandboxes of a host that runs as root. */
  readonly sandboxes: string
  remove(): void
}

export function createFreshCheckout(root: string, isBuilt = false): FreshCheckout {
  const top = mkdtempSync(join(tmpdir(), 'switchyard-recording-'))
  // The users of sandboxes have to reach what lies below.
  chmodSync(top, 0o711)
  const folder = join(top, 'switchyard')
  mkdirSync(folder)
  const names = readdirSync(root).filter((name) => !LEFT_OUT.includes(name) && (isBuilt || name !== 'dist'))
  // Unlike `cpSync` it keeps times exactly, by which a start finds that nothing is to be built.
  execFileSync('cp', ['-a', ...names.map((name) => join(root, name)), folder])
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  return {
    folder,
    home: join(top, 'home'),
    sandboxes: join(top, 'sandboxes'),
    remove: () => rmSync(top, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }),
  }
}
