/**
 * Launches sandboxes in separate folders with the real launcher, in this process or in one of another user.
 */
import { chmodSync, chownSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { realClock } from '../../bin/process/clock.ts'
import { makeLauncher } from '../../worker/sandbox/bwrap/launch.ts'
import { findLandlockProblem } from '../../worker/sandbox/bwrap/wrapper-commands.ts'
import type {
  LocalSandboxLauncher,
  SandboxEnd,
  SandboxOrder,
  SandboxProcess,
  SandboxUser,
} from '../../worker/sandbox/driver.ts'
import { sandboxUserOf } from '../../worker/sandbox/folders.ts'
import { thisMachine } from '../../worker/sandbox/local-machine.ts'
import { runTypeScript, type TestProcess } from './child-process.ts'
import type { FinishedSandbox, SandboxChildTask } from './sandbox-child.ts'
import { isRoot } from './skips.ts'
import { tempFolder } from './temp-folder.ts'

/** An unprivileged user of this test file only, because some tests kill all processes of their user. */
export const ORDINARY_UID = isRoot ? 100_000 + (process.pid % 100_000) : (process.geteuid?.() ?? 0)

/** The first of a thousand sandbox numbers of this process; parallel test files and hosts must not share numbers. */
export const FIRST_SANDBOX_NUMBER = 1_000_000 + (process.pid % 200_000) * 1_000
let next = FIRST_SANDBOX_NUMBER

export interface SandboxSetup {
  readonly root: string
  readonly sandboxUser: SandboxUser
  /** Returns an order with default name, folders, user and limit of processes. */
  order(command: readonly string[], more?: Partial<SandboxOrder>): SandboxOrder
}

/** `as` is the unprivileged user that launches; without it this process launches. */
export function createSandboxSetup(as?: number): SandboxSetup {
  const root = tempFolder()
  chmodSync(root, 0o711)
  const machine = thisMachine()
  next += 1
  const sandboxUser = as === undefined ? sandboxUserOf(next, machine) : { number: 0, uid: as, gid: as }
  if (as !== undefined && isRoot) chownSync(root, as, as)
  for (const name of ['work', 'home']) folder(join(root, name), sandboxUser)
  return {
    root,
    sandboxUser,
    order: (command, more = {}) => ({
      user: sandboxUser,
      name: 'test',
      workFolder: join(root, 'work'),
      homeFolder: join(root, 'home'),
      maxProcesses: 256,
      command,
      ...more,
    }),
  }
}

export function folder(path: string, { uid, gid }: SandboxUser): void {
  mkdirSync(path, { mode: 0o700 })
  if (isRoot) chownSync(path, uid, gid)
}

export interface SandboxResult extends FinishedSandbox {
  readonly end: SandboxEnd
}

/** Why sandboxes go without Landlock on this machine. */
export const landlockProblem = await findLandlockProblem(thisMachine())
let launcher: LocalSandboxLauncher | undefined

export function sharedLauncher(): LocalSandboxLauncher {
  launcher ??= makeLauncher({
    bwrap: '/usr/bin/bwrap',
    clock: realClock,
    hasLandlock: landlockProblem === undefined,
  })
  return launcher
}

export const sh = (script: string): string[] => ['/bin/sh', '-c', script]

export function launch(order: SandboxOrder): SandboxProcess & { readonly result: Promise<SandboxResult> } {
  const sandbox = sharedLauncher().launch(order)
  const outputs = [textOf(sandbox.stdout), textOf(sandbox.stderr)] as const
  const result = Promise.all([sandbox.ended, ...outputs]).then(([end, out, err]) => ({ end, out, err }))
  return Object.assign(sandbox, { result })
}

export const run = (order: SandboxOrder): Promise<SandboxResult> => launch(order).result

export function launchInChild(task: SandboxChildTask): TestProcess {
  return runTypeScript('test/support/sandbox-child.ts', [JSON.stringify(task)])
}

export async function runAs(
  uid: number,
  orders: readonly SandboxOrder[],
  more: Pick<SandboxChildTask, 'leaking' | 'openFiles'> = {},
): Promise<FinishedSandbox[]> {
  const child = launchInChild({ uid, orders, ...more })
  await child.ended
  const lines = child.lines.filter((line) => line !== 'started')
  if (lines.length !== orders.length) throw new Error(child.errors.join('\n'))
  return lines.map((line) => JSON.parse(line) as FinishedSandbox)
}

/** Returns the living processes of a user. */
export function processesOf(uid: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      const status = readIfPresent(`/proc/${pid}/status`)
      return new RegExp(`^Uid:\\s+${uid}\\b`, 'm').test(status) && !/^State:\s+Z/m.test(status)
    })
}

function readIfPresent(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

async function textOf(stream: AsyncIterable<Buffer | string>): Promise<string> {
  let text = ''
  try {
    for await (const part of stream) text += part
  } catch {
    // The stream is destroyed after a kill.
  }
  return text
}
