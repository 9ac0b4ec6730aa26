/** Lets machines sleep as a plan says. */
import type { Sleep } from './sleep-plan.ts'
import { stateOf, type World } from './world.ts'

export function scheduleSleeps(world: World): void {
  for (const sleep of world.plan.sleeps ?? [])
    world.time.at(sleep.at, () => {
      if (sleep.isDuringLease) beginWithLease(world, sleep)
      else begin(world, sleep)
    })
}

function beginWithLease(world: World, sleep: Sleep): void {
  const before = world.onLeaseStateChanged
  let done = false
  world.onLeaseStateChanged = (lease) => {
    before(lease)
    if (done || stateOf(lease) !== 'held') return
    done = true
    // The worker begins to execute.
    world.time.in(sleep.target * 10_000, () => begin(world, sleep, world.workerOf(lease)?.plan.id))
  }
}

function begin(world: World, { id, ms, who, target }: Sleep, holder?: string): void {
  const left = world.plan.faultsEndMs - 1_000 - world.time.now
  if (left <= 0) return
  const forMs = Math.min(ms, left)
  const all = [...world.workers.values()].filter(({ isGone }) => !isGone)
  const worker = world.workers.get(holder ?? '') ?? all[Math.floor(target * all.length)]
  const slept = [who !== 'worker' && world.host.sleep(forMs), who !== 'host' && worker?.sleep(forMs) === true]
  if (!slept.includes(true)) return
  world.view.isDisturbed = true
  world.note(`${id} ${who} ${worker?.plan.id ?? ''} sleeps for ${(forMs / 1000).toFixed(1)} s`)
  world.countOutcome('machines slept')
}
