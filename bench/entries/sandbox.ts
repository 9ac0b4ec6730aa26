/**
 * Measures a sandbox with the command `true`: from the order until nothing of it is left.
 *
 * The floor is bubblewrap itself with the same arguments and filter, but without a user of its own, limits, gate
 * and supervision of the end.
 */
import { chmodSync, chownSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { realClock } from '../../bin/process/clock.ts'
import { buildSandboxArguments } from '../../worker/sandbox/bwrap/arguments.ts'
import { makeLauncher } from '../../worker/sandbox/bwrap/launch.ts'
import { probeSandbox } from '../../worker/sandbox/bwrap/probe.ts'
import type { SandboxOrder } from '../../worker/sandbox/driver.ts'
import { sandboxUserOf } from '../../worker/sandbox/folders.ts'
import { thisMachine } from '../../worker/sandbox/local-machine.ts'
import type { BenchResources } from '../bench-resources.ts'
import { type Entry, measureInTurn } from '../entry.ts'
import {
  absoluteFigure,
  compareFigure,
  groupIntoRounds,
  type Measurement,
  spread,
  withProcessorCosts,
} from '../figures.ts'
import { measureOwnWork } from '../own-work.ts'
import { amount } from '../table.ts'

const STARTS = { quick: 20, full: 60 }
const COMMAND = ['/bin/true']

export const sandbox: Entry = {
  name: 'sandbox',
  about: 'a sandbox from order to end / bubblewrap alone with the same arguments',
  async measure(effort, resources) {
    const probe = await probeSandbox()
    if (!probe.ok) throw new Error(probe.detail)
    const machine = thisMachine()
    const order = createSandboxOrder(resources)
    const hasLandlock = probe.landlockProblem === undefined
    const launcher = makeLauncher({ bwrap: probe.bwrap, clock: realClock, machine, hasLandlock })
    const starts = effort.quick ? STARTS.quick : STARTS.full
    const measured = await measureInTurn(effort.rounds * starts, {
      ours: () => measureOwnWork(() => waitForSandbox(launcher.launch(order))),
      raw: () => measureOwnWork(() => runBubblewrap(probe.bwrap, order)),
    })
    resources.removeFolder(dirname(order.workFolder))
    const pairs = (part: keyof Measurement) =>
      measured.map(({ ours, raw }) => ({ ours: ours[part], raw: raw[part] }))
    const ours = measured.map((start) => start.ours.value).sort((a, b) => a - b)
    const late = ours[Math.floor(ours.length * 0.95)] ?? 0
    return [
      withProcessorCosts(
        compareFigure(
          { name: 'sandbox, order to end', unit: 'ms', notes: [`limits by ${launcher.limitsEnforcedBy()}`] },
          pairs('value'),
        ),
        // An ended process is counted in whole ticks, so only the mean of many starts is exact enough.
        groupIntoRounds(pairs('cpuMicros'), starts),
      ),
      absoluteFigure(
        {
          name: 'sandbox, order to end, 95 of 100',
          unit: 'ms',
          target: { of: 'ours', is: 'at most', bound: 100 },
          notes: [`median ${amount(spread(ours).median)} ms of ${ours.length} starts`],
        },
        [late],
      ),
    ]
  },
}

export function createSandboxOrder(resources: BenchResources): SandboxOrder {
  const root = resources.createFolder('sandbox')
  chmodSync(root, 0o711)
  const sandboxUser = sandboxUserOf(0, thisMachine())
  const [work, home] = ['work', 'home'].map((name) => join(root, name)) as [string, string]
  for (const path of [work, home]) {
    mkdirSync(path, { mode: 0o700 })
    if (thisMachine().euid === 0) chownSync(path, sandboxUser.uid, sandboxUser.gid)
  }
  return {
    user: sandboxUser,
    name: 'bench',
    workFolder: work,
    homeFolder: home,
    maxProcesses: 64,
    command: COMMAND,
  }
}

async function waitForSandbox(running: ReturnType<ReturnType<typeof makeLauncher>['launch']>): Promise<void> {
  running.stdout.resume()
  running.stderr.resume()
  const end = await running.ended
  if (end.code !== 0) throw new Error(`the sandbox failed: ${JSON.stringify(end)}`)
}

export async function runBubblewrap(
  bwrap: string,
  { workFolder: work, homeFolder: home, user: sandboxUser }: SandboxOrder,
): Promise<void> {
  const machine = thisMachine()
  const { commandLine: visible, inputs: fed } = buildSandboxArguments({ workFolder: work, homeFolder: home })
  const as = machine.euid === 0 ? { as: { uid: sandboxUser.uid, gid: sandboxUser.gid } } : {}
  const ended = await machine.run({
    program: bwrap,
    args: [...visible, ...COMMAND],
    inputs: fed,
    timeoutMs: 10_000,
    ...as,
  })
  if (ended.is !== 'exited' || ended.code !== 0)
    throw new Error(`bubblewrap failed: ${JSON.stringify(ended)}`)
}
