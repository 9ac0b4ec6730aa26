/**
 * What is wrong with an order, before anything is started for it.
 */
import { dirname, isAbsolute, normalize } from 'node:path'
import { HOME, WORK } from './arguments.ts'
import { objectionToFolder, objectionToSocket } from './folders.ts'
import type { SandboxOrder } from './sandbox-process.ts'

const NAME = /^[A-Za-z0-9-]{1,128}$/
/** Inside, these are made for the sandbox; a host path shown over or above one of them would be carving a root down. */
const MADE = [WORK, HOME, '/proc', '/dev', '/tmp', '/run', '/etc', '/sys', '/home', '/root', '/var', '/boot']

export function objectionToOrder(order: SandboxOrder): string | undefined {
  const { name, slot, work, home, mounts = [], shown = [], egressSocket, command } = order
  if (!NAME.test(name)) return `${JSON.stringify(name)} is no name for a sandbox`
  if (slot.uid === 0) return 'a sandbox never runs as root'
  if (command.length === 0) return 'there is no command to run'
  const written = [work, home, ...mounts.filter(({ writable = false }) => writable).map(({ from }) => from)]
  return (
    first(written, (path) => objectionToFolder(path, slot)) ??
    first(mounts, ({ to }) => objectionToPlace(to)) ??
    first(shown, (path) => objectionToShown(path, written)) ??
    (egressSocket === undefined ? undefined : objectionToSocket(egressSocket))
  )
}

function objectionToPlace(to: string): string | undefined {
  const isPlain = isAbsolute(to) && normalize(to) === to && to !== '/'
  return isPlain && !MADE.includes(to) ? undefined : `${to} is no place for a folder inside`
}

function objectionToShown(path: string, written: readonly string[]): string | undefined {
  if (!isAbsolute(path) || normalize(path) !== path) return `${path} can't be shown: it is no plain path`
  const hidden = [...MADE, ...written].find((each) => each === path || above(each).includes(path))
  return hidden === undefined ? undefined : `${path} can't be shown: it would show ${hidden}`
}

function above(path: string): string[] {
  const parent = dirname(path)
  return parent === path ? [] : [parent, ...above(parent)]
}

function first<T>(values: readonly T[], objection: (value: T) => string | undefined): string | undefined {
  for (const value of values) {
    const found = objection(value)
    if (found !== undefined) return found
  }
  return undefined
}
