/** Tells whether runs can be sandboxed here: the program of the sandbox, and the namespaces that it needs. */
import type { SandboxWalls } from '../../../worker/sandbox/driver.ts'
import type { ExaminedMachine } from '../examined-machine.ts'
import { type Check, fail, type Judgement, ok, splitCure, warn } from '../finding.ts'

const PROVISION = 'run a worker on another machine: switchyard workers provision USER@HOST'

export const sandboxCheck: Check = {
  id: 'sandbox',
  places: ['host', 'worker'],
  async judge(machine) {
    const found = await machine.sandbox()
    if (found.ok) return [ok(`${found.provider} isolates runs on this machine: ${describeWalls(found)}`)]
    // The finding of the namespaces says it.
    if (found.fault?.of === 'user-namespaces') return []
    const [message, advice] = splitCure(found.detail)
    const { problem = message, cure = advice ?? PROVISION } = found.fault ?? {}
    if (found.reason === 'unsupported-platform') return [warn(problem, PROVISION)]
    return [await judgeHere(machine, problem, cure)]
  },
}

export const userNamespacesCheck: Check = {
  id: 'userns',
  places: ['host', 'worker'],
  async judge(machine) {
    const found = await machine.sandbox()
    if (found.ok) return [ok('user namespaces work')]
    const { fault } = found
    return fault?.of === 'user-namespaces' ? [await judgeHere(machine, fault.problem, fault.cure)] : []
  },
}

function describeWalls({ walls, missingWalls }: SandboxWalls): string {
  const missing = missingWalls.map((wall) => `no ${wall}`)
  return [...walls, ...missing].join(', ')
}

/** A host that runs no worker of its own needs no sandbox. */
async function judgeHere(machine: ExaminedMachine, problem: string, cure: string): Promise<Judgement> {
  const config = await machine.config()
  const isNeeded = machine.place === 'worker' || !config.ok || config.value.worker.local
  return isNeeded ? fail(problem, cure) : warn(problem, cure)
}
