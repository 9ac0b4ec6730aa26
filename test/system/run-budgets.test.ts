/** The budgets of a run with real processes: output and artifacts without end leave a readable run behind. */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { LOG_TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import { LocalSystem } from '../support/local-system.ts'

const MIB = 1024 * 1024
const TEST_MS_MAX = 300_000

test(
  'a run whose setup, agent and artifacts exceed their budgets completes, with head, tail and what is missing',
  async () => {
    const system = await LocalSystem.open({
      local: true,
      sandbox: { maxLogMib: 1, maxArtifactsMib: 1 },
      repos: { plain: { remote: 'acme/plain', setup: 'echo first line; seq 1 1000000' } },
    })
    await system.waitForOnlineWorkers(1)
    system.writeTicket('ENG-1', [
      'write hello.txt',
      '  Hello!',
      'run seq 1000000 1500000; head -c 2000000 /dev/urandom > $SWITCHYARD_ARTIFACTS/large.bin; echo ok > $SWITCHYARD_ARTIFACTS/small.txt',
      'commit Hello',
      'say The last word.',
    ])
    const run = await system.waitForEnd('ENG-1')
    expect([run.status, run.error, run.prState]).toEqual(['completed', undefined, 'open'])
    expect(run.result?.artifacts).toEqual(['small.txt'])
    const events = await system.events(run)
    expect(events.map(({ index }) => index)).toEqual(events.map((_, i) => i))
    const texts = events.flatMap((event) => (event.type === 'log' ? [event.text] : []))
    const whole = texts.join('\n')
    expect(whole).toMatch(/^first line\n1\n2\n/m)
    expect(whole).toMatch(/^\d{6,} bytes of the log are left out here/m)
    expect(whole).toMatch(/artifact large\.bin is left out: it has 2000000 bytes, and 104857\d are left/)
    expect(JSON.stringify(events.slice(-20))).toContain('The last word.')
    expect(events.at(-1)).toMatchObject({ type: 'status', to: 'completed' })
    expect(events.filter(({ type }) => type === 'cost')).toHaveLength(1)
    const bytes = Buffer.byteLength(events.map((event) => JSON.stringify(event)).join('\n'))
    expect(bytes).toBeLessThan(MIB)
    expect(bytes).toBeGreaterThan(MIB / 2)
    const file = join(system.dataDir, 'runs', run.id, 'events.jsonl')
    expect(statSync(file, { throwIfNoEntry: false })?.size ?? 0).toBeLessThan(MIB)
    expect(system.findLeaks()).toEqual([])
  },
  TEST_MS_MAX,
)

test(
  'a line of a setup that is longer than an event may be is split, and nothing of it is lost',
  async () => {
    const system = await LocalSystem.open({
      local: true,
      repos: { plain: { remote: 'acme/plain', setup: "head -c 700000 /dev/zero | tr '\\0' x; echo" } },
    })
    await system.waitForOnlineWorkers(1)
    system.writeTicket('ENG-1', ['write hello.txt', '  Hello!', 'commit Hello', 'say Done.'])
    const run = await system.waitForEnd('ENG-1')
    expect([run.status, run.error]).toEqual(['completed', undefined])
    const texts = (await system.events(run)).flatMap((event) => (event.type === 'log' ? [event.text] : []))
    expect(Math.max(...texts.map(({ length }) => length))).toBeLessThanOrEqual(LOG_TEXT_CHARS_MAX)
    expect(
      texts
        .join('')
        .match(/x{1000,}/g)
        ?.map(({ length }) => length),
    ).toEqual([700_000])
  },
  TEST_MS_MAX,
)
