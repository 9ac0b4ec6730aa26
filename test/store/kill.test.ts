/** A process killed while it writes, at any instant: what it was told is on disk, and the store opens again. */
import { expect, test } from '@jest/globals'
import { realClock } from '../../bin/clock.ts'
import { LmdbLedger } from '../../store/lmdb/ledger.ts'
import { runTypeScript } from '../support/child.ts'
import { keptLog, noMeters } from '../support/quiet.ts'
import { firstSeed, Random } from '../support/random.ts'
import { tempFolder, until } from '../support/real.ts'

const CYCLES = Number(process.env.KILL_CYCLES ?? 15)
const seed = firstSeed(Date.now() % 1_000_000)

test(
  `killed ${CYCLES} times while writing (SEED=${seed})`,
  async () => {
    const random = new Random(seed)
    const folder = tempFolder()
    const known = new Map<string, number>()
    for (let cycle = 0; cycle < CYCLES; cycle++) {
      const child = runTypeScript('test/support/store-child.ts', [
        'flood',
        folder,
        `${1 + cycle * 1_000_000}`,
      ])
      await until('the child writes', () => child.lines.length > 1)
      await new Promise((resolve) => setTimeout(resolve, random.below(120)))
      child.process.kill('SIGKILL')
      expect(await child.ended).toBe('SIGKILL')
      learn(known, child.lines)
      expect(await lackingIn(folder, known)).toEqual([])
    }
    expect(known.size).toBeGreaterThan(32)
  },
  30_000 + CYCLES * 3_000,
)

function learn(known: Map<string, number>, lines: readonly string[]): void {
  // Every life counts on from above its elder's numbers, so a later write is never the smaller one.
  for (const line of lines) {
    const [what, kind, caller, n] = line.split(' ')
    if (what === 'ack') known.set(`${kind} ${caller}`, Number(n))
  }
}

/** A later write that was not acknowledged may be there too; an older value may not. Both halves of a commit agree. */
async function lackingIn(folder: string, known: ReadonlyMap<string, number>): Promise<string[]> {
  const ledger = new LmdbLedger({
    folder,
    clock: realClock,
    log: keptLog(),
    meters: noMeters,
    ballastBytes: 0,
  })
  const lacking: string[] = []
  const countOf = (kind: string, key: number) =>
    (ledger.lives.get(kind, `k-${key}`)?.c as { n: number } | undefined)?.n
  for (const [key, n] of known) {
    const [kind = '', caller] = key.split(' ')
    const found = countOf(kind, Number(caller))
    if (found === undefined || found < n) lacking.push(`${key}: ${n} was acknowledged, ${found} found`)
    if (found !== countOf(kind, Number(caller) + 1000)) lacking.push(`${key}: half a commit`)
  }
  await ledger.close()
  return lacking
}
