/** The provision machine: which step follows which, and from where something is undone. */
import { type ProvisionEvent, provisionMachine } from '../../../actors/provisioning/provision.machine.ts'
import { LAST_LINE, type TrailRow, trailTests } from '../trail-tests.ts'

const input = { provision: 'provision-1' }
const done: ProvisionEvent = { type: 'step done', message: 'well' }
const failed: ProvisionEvent = { type: 'step failed', message: 'not well' }
const interrupted: ProvisionEvent = { type: 'interrupted' }
const undone: ProvisionEvent = { type: 'undone' }
const checked = (isNew: boolean): ProvisionEvent => ({ type: 'checked', message: 'linux', isNew })

/** The events up to each step of a new worker, and of an upgrade. */
const upTo = {
  checking: [done],
  copying: [done, checked(true)],
  draining: [done, checked(false), done],
  installing: [done, checked(true), done],
  pairing: [done, checked(true), done, done],
  starting: [done, checked(true), done, done, done],
} as const

const failures: readonly TrailRow<ProvisionEvent>[] = Object.entries(upTo).flatMap(([step, before]) => [
  [
    `a failure while ${step} ends the provisioning`,
    [...before, failed, ...(step === 'checking' ? [] : [undone])],
  ],
  [`the end of the host interrupts ${step}`, [...before, interrupted], LAST_LINE],
])

trailTests(provisionMachine, input, [
  ['a new worker is copied, installed, paired and awaited', [...upTo.starting, done]],
  [
    'a worker of this host is drained before its new version is installed, and not paired again',
    [...upTo.draining, done, done, done],
  ],
  ['a machine that can’t be reached is left as it is', [failed]],
  ['the end of the host interrupts connecting', [interrupted], LAST_LINE],
  ...failures,
])
