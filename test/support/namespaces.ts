/**
 * Runs processes as if they were in another container, or on another machine, with the data directory of this one.
 *
 * A process in a namespace of its own sees no other process and is the first one there, as in a container.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isRoot, testIf } from './skips.ts'
import { tempFolder } from './temp-folder.ts'

/** The words in front of a command. The process ends with the program that made its namespace. */
export const IN_CONTAINER: readonly string[] = [
  'unshare',
  ...(isRoot ? [] : ['--user', '--map-root-user']),
  ...['--pid', '--fork', '--mount-proc', '--kill-child'],
]

const [program = '', ...words] = [...IN_CONTAINER, 'true']
const canUnshare = spawnSync(program, words).status === 0
export const testWithContainers = testIf(canUnshare, 'needs process namespaces')

/** The words in front of a command that runs under a kernel that has booted anew, or on another one. */
export function onOtherMachine(): readonly string[] {
  const bootId = join(tempFolder(), 'boot-id')
  writeFileSync(bootId, '00000000-0000-4000-8000-000000000000\n')
  const script = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'
  return [...IN_CONTAINER, 'sh', '-c', script, bootId]
}

/** The environment of a process whose file system has no locks of the kernel, as far as it can find out. */
export function withoutKernelLocks(): NodeJS.ProcessEnv {
  const folder = tempFolder()
  writeFileSync(join(folder, 'flock'), '#!/bin/sh\nexit 71\n')
  chmodSync(join(folder, 'flock'), 0o755)
  return { PATH: `${folder}:${process.env.PATH}` }
}
