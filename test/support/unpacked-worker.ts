/**
 * The worker package, unpacked, and roots that hold it: an empty one beside Node and its libraries, and one with the
 * programs of this machine but nothing of the checkout.
 */
import { execFileSync } from 'node:child_process'
import { lstatSync, readdirSync, readlinkSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { archiveOf } from '../../build/worker-package.mjs'
import { tempFolder } from './temp-folder.ts'

const BWRAP = '/usr/bin/bwrap'
/** Where the package lies in the roots, and the program in it. */
const PLACE = '/opt'

/** The folder inside the archive that the build made for this machine. */
export function unpackWorker(): string {
  const folder = tempFolder()
  execFileSync('tar', ['-xzf', archiveOf(process.arch), '-C', folder])
  const [name = ''] = readdirSync(folder)
  return join(folder, name)
}

const programIn = (...args: readonly string[]): string[] => [
  process.execPath,
  `${PLACE}/bin/switchyard-worker.mjs`,
  ...args,
]
const readable = (path: string): string[] => ['--ro-bind', realpathSync(path), path]

/** A command in a root that holds only Node with its libraries, and the package. */
export function commandInEmptyRoot(
  unpacked: string,
  args: readonly string[],
): [program: string, args: string[]] {
  const paths = [process.execPath, ...librariesOf(process.execPath)].flatMap(readable)
  const own = ['--proc', '/proc', '--dev', '/dev', '--tmpfs', '/tmp', '--ro-bind', unpacked, PLACE]
  return [
    BWRAP,
    ['--unshare-pid', '--die-with-parent', '--clearenv', ...paths, ...own, ...programIn(...args)],
  ]
}

/** A command in a root with the programs of this machine, the package and the given folders; `missing` can't be started. */
export function commandBesidePrograms(
  unpacked: string,
  args: readonly string[],
  { folders = [], missing = [] }: { folders?: readonly string[]; missing?: readonly string[] },
): [program: string, args: string[]] {
  const links = ['/bin', '/sbin', '/lib', '/lib64'].flatMap((path) =>
    isLink(path) ? ['--symlink', readlinkSync(path), path] : readable(path),
  )
  // The kernel refuses the sandboxes' own /proc where a part of this one is covered, as bubblewrap's --proc does.
  const own = ['--bind', '/proc', '/proc', '--dev', '/dev', '--tmpfs', '/tmp', '--ro-bind', unpacked, PLACE]
  const shared = folders.flatMap((folder) => ['--bind', folder, folder])
  const hidden = missing.flatMap((program) => ['--ro-bind', '/dev/null', program])
  // bubblewrap would take the rights of root away, which a root worker needs for its sandboxes.
  const rights = ['--die-with-parent', '--cap-add', 'ALL']
  const environment = ['--clearenv', '--setenv', 'PATH', '/usr/bin:/bin', '--setenv', 'HOME', '/tmp']
  return [
    BWRAP,
    [
      ...rights,
      ...environment,
      ...readable('/usr'),
      ...links,
      ...hidden,
      ...own,
      ...shared,
      ...programIn(...args),
    ],
  ]
}

const isLink = (path: string): boolean => lstatSync(path).isSymbolicLink()

const librariesOf = (program: string): string[] =>
  execFileSync('ldd', [program], { encoding: 'utf8' }).match(/\/\S+/g) ?? []
