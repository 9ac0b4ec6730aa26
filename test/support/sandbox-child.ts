/**
 * A process that launches sandboxes as a given user and prints how each one ended.
 *
 * The argument is JSON with the `uid` and the orders, which run one after the other. Each order prints a line `started`
 * at its start and a line of JSON at its end.
 */
import { spawnSync } from 'node:child_process'
import { openSync } from 'node:fs'
import { realClock } from '../../bin/process/clock.ts'
import { makeLauncher } from '../../worker/sandbox/bwrap/launch.ts'
import { findLandlockProblem } from '../../worker/sandbox/bwrap/wrapper-commands.ts'
import type { SandboxEnd, SandboxOrder } from '../../worker/sandbox/driver.ts'
import { thisMachine } from '../../worker/sandbox/local-machine.ts'

export interface FinishedSandbox {
  readonly end: SandboxEnd
  readonly out: string
  readonly err: string
}

export interface SandboxChildTask {
  readonly uid?: number
  /** File descriptors that the process inherits. */
  readonly leaking?: readonly number[]
  /** Limit of open files of the process. */
  readonly openFiles?: number
  /** Kills a sandbox after this time and ends this process in the same tick. */
  readonly killsAfterMs?: number
  readonly orders: readonly SandboxOrder[]
}

const {
  uid,
  orders,
  leaking = [],
  openFiles = 4_096,
  killsAfterMs,
}: SandboxChildTask = JSON.parse(process.argv[2] ?? '{}')

if (uid !== undefined && process.geteuid?.() !== uid) {
  // A process that changes its own user may no longer read its own /proc entry; a process started as that user may.
  const leak = openSync(process.execPath, 'r')
  const others = Array.from({ length: Math.max(0, ...leaking) + 1 }, (_, fd) =>
    leaking.includes(fd) ? leak : 'ignore',
  )
  const stdio: ('inherit' | 'ignore' | number)[] = ['inherit', 'inherit', 'inherit', ...others.slice(3)]
  const limited = [`--nofile=${openFiles}:${openFiles}`, '--', process.execPath, ...process.argv.slice(1)]
  const { status } = spawnSync('/usr/bin/prlimit', limited, { uid, gid: uid, stdio })
  process.exitCode = status ?? 1
} else {
  const hasLandlock = (await findLandlockProblem(thisMachine())) === undefined
  const launcher = makeLauncher({ bwrap: '/usr/bin/bwrap', clock: realClock, hasLandlock })
  for (const order of orders) {
    const sandbox = launcher.launch(order)
    console.log('started')
    if (killsAfterMs !== undefined) {
      const until = performance.now() + killsAfterMs
      // Blocks the event loop, so that no report of the sandbox is read.
      while (performance.now() < until);
      sandbox.kill()
      process.exit()
    }
    const [out, err, end] = await Promise.all([textOf(sandbox.stdout), textOf(sandbox.stderr), sandbox.ended])
    const finished: FinishedSandbox = { end, out, err }
    console.log(JSON.stringify(finished))
  }
}

async function textOf(stream: AsyncIterable<Buffer | string>): Promise<string> {
  let text = ''
  for await (const part of stream) text += part
  return text
}
