/** A worker that dies takes its sandboxes with it, whatever it was about to do. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from '@jest/globals'
import { realClock } from '../../../bin/clock.ts'
import { makeLauncher } from '../../../worker/sandbox/launch.ts'
import { until } from '../../support/real.ts'
import { inAChild, isRoot, ORDINARY, type Place, place, processesOf, sh } from '../../support/sandbox.ts'

const GONE_MS_MAX = 2_000
const DAEMONS =
  '(setsid sleep 300 &) ; (setsid sh -c "trap : TERM INT HUP; sleep 300" &) ; touch /work/up; sleep 300'

const asRoot = isRoot ? describe : describe.skip

/** Milliseconds until nothing was left. */
async function gone({ slot }: Place): Promise<number> {
  const since = performance.now()
  await until('every process is gone', () => processesOf(slot.uid).length === 0)
  return performance.now() - since
}

// Only a user that nobody else is tells what is left.
asRoot('killed without warning (needs root)', () => {
  test.each(['root', 'an ordinary user'])('a worker of %s leaves nothing of a running agent', async (who) => {
    const uid = who === 'root' ? undefined : ORDINARY
    const here = place(uid)
    const child = inAChild({ ...(uid === undefined ? {} : { uid }), orders: [here.order(sh(DAEMONS))] })
    await until('the agent has its daemons', () => existsSync(join(here.root, 'work', 'up')))
    const launcher = uid === undefined ? child.process.pid : launcherOf(uid)
    process.kill(launcher as number, 'SIGKILL')
    expect(await gone(here)).toBeLessThan(GONE_MS_MAX)
  })

  test('at any moment of the beginning it leaves no agent, and the next worker finds what else it left', async () => {
    for (let afterMs = 0; afterMs < 20; afterMs += 2) {
      const here = place()
      const child = inAChild({ orders: [here.order(sh(DAEMONS))] })
      await until('the launch', () => child.lines.includes('started'))
      await sleep(afterMs)
      child.process.kill('SIGKILL')
      await child.ended
      await until('no agent is left', () => processesOf(here.slot.uid).every(isWaitingInVain))
      makeLauncher({ bwrap: '/usr/bin/bwrap', clock: realClock })
      expect([afterMs, (await gone(here)) < GONE_MS_MAX]).toEqual([afterMs, true])
    }
  })
})

/** It was made, and whoever was to tell it to go on has died: no filter over it yet, so nothing was started in it. */
function isWaitingInVain(pid: number): boolean {
  try {
    return /^Seccomp:\s+0$/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return true
  }
}

/** The node among the user's processes. */
function launcherOf(uid: number): number | undefined {
  return Math.min(...processesOf(uid))
}
