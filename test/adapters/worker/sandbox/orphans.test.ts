/** Tests that no sandbox survives the death of its worker, whenever the worker dies. */
import { existsSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from '@jest/globals'
import { realClock } from '../../../../bin/process/clock.ts'
import { makeLauncher } from '../../../../worker/sandbox/bwrap/launch.ts'
import {
  createSandboxSetup,
  launchInChild,
  ORDINARY_UID,
  processesOf,
  type SandboxSetup,
  sh,
} from '../../../support/sandbox.ts'
import { describeIf, isRoot } from '../../../support/skips.ts'
import { until } from '../../../support/until.ts'

const DAEMONS =
  '(setsid sleep 300 &) ; (setsid sh -c "trap : TERM INT HUP; sleep 300" &) ; touch /work/up; sleep 300'

/** Waits less time than any of the daemons would run by itself. */
const awaitGone = ({ sandboxUser }: SandboxSetup): Promise<void> =>
  until('every process is gone', () => processesOf(sandboxUser.uid).length === 0)

// Only under root each sandbox has a user of its own, by which leftover processes are found.
describeIf(isRoot, 'needs root')('killed without warning', () => {
  test.each(['root', 'an ordinary user'])('a worker of %s leaves nothing of a running agent', async (who) => {
    const uid = who === 'root' ? undefined : ORDINARY_UID
    const fixture = createSandboxSetup(uid)
    const child = launchInChild({
      ...(uid === undefined ? {} : { uid }),
      orders: [fixture.order(sh(DAEMONS))],
    })
    await until('the agent has its daemons', () => existsSync(join(fixture.root, 'work', 'up')))
    const launcher = uid === undefined ? child.process.pid : findLauncher(uid)
    process.kill(launcher as number, 'SIGKILL')
    await awaitGone(fixture)
  })

  test('a worker killed while it starts a sandbox leaves no agent, and the next worker ends all other processes', async () => {
    for (let afterMs = 0; afterMs < 20; afterMs += 2) {
      const fixture = createSandboxSetup()
      const child = launchInChild({ orders: [fixture.order(sh(DAEMONS))] })
      await until('the sandbox is launched', () => child.lines.includes('started'))
      await sleep(afterMs)
      child.process.kill('SIGKILL')
      await child.ended
      await until('no agent is left', () => processesOf(fixture.sandboxUser.uid).every(isOrphan))
      makeLauncher({ bwrap: '/usr/bin/bwrap', clock: realClock })
      await awaitGone(fixture)
    }
  })

  test('the next worker ends what a worker left that exited right after it killed a sandbox', async () => {
    for (let killsAfterMs = 0; killsAfterMs < 10; killsAfterMs += 0.5) {
      const fixture = createSandboxSetup()
      const child = launchInChild({ orders: [fixture.order(sh(DAEMONS))], killsAfterMs })
      await child.ended
      // Usually nothing is left. On a busy machine, bubblewrap may be stopped too late to be killed with its child.
      makeLauncher({ bwrap: '/usr/bin/bwrap', clock: realClock })
      await awaitGone(fixture)
    }
  })
})

/** The process waits for its dead parent. Without a seccomp filter, nothing was started in it. */
function isOrphan(pid: number): boolean {
  try {
    return /^Seccomp:\s+0$/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return true
  }
}

/** Finds the node process of a user. The highest pid need not be the newest, because the kernel wraps pids around. */
function findLauncher(uid: number): number | undefined {
  return processesOf(uid).find((pid) => programOf(pid) === process.execPath)
}

function programOf(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/exe`)
  } catch {
    return ''
  }
}
