/** The ends of leases survive a restart, and are forgotten only when no worker can ask for them any more. */
import { expect, test } from '@jest/globals'
import { ENDED_LEASES_KEPT_MS, EndedLeases } from '../../../actors/leases/ended-leases.ts'
import { createIds } from '../../../core/ids.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { MemoryControlDatabase } from '../../support/memory-database.ts'

const DAY_MS = 24 * 3_600_000

class Scene {
  readonly clock = new ManualClock()
  readonly database = new MemoryControlDatabase(this.clock)
  readonly ids = createIds(this.clock, { bytes: (count) => new Uint8Array(count) })
  ended = this.restarted()

  restarted(): EndedLeases {
    return new EndedLeases(
      this.database.keyValues,
      () => {},
      this.clock,
      () => {},
    )
  }

  end(id: string): void {
    const lease = { id, runId: 'run-1', workerId: 'wk-1', termMs: 1, grantedAt: '', why: null }
    this.ended.recordEnd({ ...lease, end: 'completed' }, this.clock.now())
  }

  async commit(): Promise<void> {
    const contribution = this.ended.contribute()
    const committed = this.database.commit(contribution?.writes ?? [])
    await this.clock.settle()
    await committed
    contribution?.onCommitted()
  }

  async pruneAfter(days: number): Promise<void> {
    await this.clock.advance(days * DAY_MS)
    this.ended.prune()
    await this.commit()
  }
}

test('an end is uncommitted until it is on disk, and known after a restart', async () => {
  const scene = new Scene()
  const id = scene.ids.lease()
  scene.end(id)
  expect(scene.ended.endOf(id)).toBe('uncommitted')
  await scene.commit()
  expect(scene.ended.endOf(id)).toBe('completed')
  expect(scene.restarted().endOf(id)).toBe('completed')
})

test('an end is kept as long as its limit says, counted from the end of the lease', async () => {
  const scene = new Scene()
  const short = scene.ids.lease()
  const long = scene.ids.lease()
  scene.end(short)
  await scene.commit()
  await scene.pruneAfter(ENDED_LEASES_KEPT_MS / DAY_MS)
  expect(scene.ended.endOf(short)).toBe('completed')
  scene.end(long)
  await scene.commit()
  await scene.pruneAfter(1)
  expect(scene.ended.endOf(short)).toBeUndefined()
  expect(scene.ended.endOf(long)).toBe('completed')
  await scene.pruneAfter(ENDED_LEASES_KEPT_MS / DAY_MS)
  expect(scene.ended.endOf(long)).toBeUndefined()
})
