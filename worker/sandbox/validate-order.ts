/**
 * Validates a sandbox order before anything is started for it.
 *
 * Each `find…Problem` function returns a sentence for the first problem, or undefined when there is none.
 */
import { dirname, isAbsolute, normalize } from 'node:path'
import { findFolderProblem, findSocketProblem } from './folders.ts'
import { HOME, WORK } from './inside-paths.ts'
import type { SandboxOrder } from './sandbox-process.ts'

const SANDBOX_NAME = /^[A-Za-z0-9-]{1,128}$/
/** Paths that the sandbox creates itself. Mounting a host path on or above one of them would expose the host. */
const SANDBOX_PATHS = [
  WORK,
  HOME,
  '/proc',
  '/dev',
  '/tmp',
  '/run',
  '/etc',
  '/sys',
  '/home',
  '/root',
  '/var',
  '/boot',
]

export function findOrderProblem(order: SandboxOrder): string | undefined {
  const { name, user, workFolder, homeFolder, mounts = [], readOnlyPaths = [], egressSocket, command } = order
  if (!SANDBOX_NAME.test(name)) return `${JSON.stringify(name)} is not a valid sandbox name`
  if (user.uid === 0) return 'a sandbox never runs as root'
  if (command.length === 0) return 'there is no command to run'
  const writableFolders = [
    workFolder,
    homeFolder,
    ...mounts.filter(({ writable = false }) => writable).map(({ from }) => from),
  ]
  return (
    findFirstProblem(writableFolders, (path) => findFolderProblem(path, user)) ??
    findFirstProblem(mounts, ({ to }) => findMountPointProblem(to)) ??
    findFirstProblem(readOnlyPaths, (path) => findReadOnlyPathProblem(path, writableFolders)) ??
    (egressSocket === undefined ? undefined : findSocketProblem(egressSocket))
  )
}

function findMountPointProblem(to: string): string | undefined {
  const isPlain = isAbsolute(to) && normalize(to) === to && to !== '/'
  return isPlain && !SANDBOX_PATHS.includes(to)
    ? undefined
    : `${to} is not a valid mount point inside the sandbox`
}

function findReadOnlyPathProblem(path: string, writableFolders: readonly string[]): string | undefined {
  if (!isAbsolute(path) || normalize(path) !== path)
    return `${path} cannot be mounted: it is not a normalized absolute path`
  const exposed = [...SANDBOX_PATHS, ...writableFolders].find(
    (each) => each === path || ancestorsOf(each).includes(path),
  )
  return exposed === undefined ? undefined : `${path} cannot be mounted: it would expose ${exposed}`
}

function ancestorsOf(path: string): string[] {
  const parent = dirname(path)
  return parent === path ? [] : [parent, ...ancestorsOf(parent)]
}

function findFirstProblem<T>(
  values: readonly T[],
  findProblem: (value: T) => string | undefined,
): string | undefined {
  for (const value of values) {
    const problem = findProblem(value)
    if (problem !== undefined) return problem
  }
  return undefined
}
