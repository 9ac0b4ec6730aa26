/**
 * The settings in a whole host, with a configuration file that may be edited at any moment.
 */
import { describe, expect, test } from '@jest/globals'
import { CONFIG_SETTLE_MS, CONFIG_SETTLE_TRIES_MAX } from '../../../actors/settings/module.ts'
import type { ConfigFile } from '../../../core/ports/store.ts'
import type { DashboardPush } from '../../../protocol/dashboard.ts'
import { SETTINGS_CHANGES_WAITING_MAX } from '../../../protocol/limits.ts'
import { readPush } from '../../support/dashboard-pushes.ts'
import { createInMemoryHost } from '../../support/host-in-memory.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { createMemoryStore } from '../../support/memory-store.ts'

/** A configuration file whose content and failures the test controls. */
class ScriptedConfigFile implements ConfigFile {
  readonly path = 'config.json'
  readonly copies: string[] = []
  writes = 0
  text: string | undefined
  #changed: () => void = () => {}

  constructor(text: string | undefined) {
    this.text = text
  }

  read = async () => this.text
  beforeReplace: () => void = () => {}
  failWith: string | undefined

  replace = async (expected: string | undefined, text: string) => {
    this.beforeReplace()
    if (this.failWith !== undefined) throw new Error(this.failWith)
    if (this.text !== expected) return { is: 'changed' as const, text: this.text }
    this.text = text
    this.writes++
    return { is: 'replaced' as const }
  }
  saveCopy = async (text: string) => `copy ${this.copies.push(text)}`
  watch = (changed: () => void) => {
    this.#changed = changed
    return () => {}
  }

  edit(text: string | undefined, noticed = true): void {
    this.text = text
    if (noticed) this.#changed()
  }
}

async function startHostWithFile(text: string | undefined = '{"repos":{}}') {
  const file = new ScriptedConfigFile(text)
  // The host commits the time of its clock at the start, so the store has to share its clock.
  const clock = new ManualClock()
  const store = { ...createMemoryStore({ clock }), config: file }
  const stage = { ...createInMemoryHost(text, { store, clock }), clock }
  const pushes: DashboardPush[] = []
  stage.host.start()
  await stage.clock.settle()
  // Ignore the pushes of the start, which are not about settings.
  stage.host.hostApi.onPush((push) => pushes.push(readPush(push)))
  const change = async (patch: Record<string, unknown>) => {
    const answer = stage.host.hostApi.changeSettings(patch)
    await stage.clock.settle()
    return answer
  }
  const live = () => stage.host.hostApi.config()
  return { ...stage, file, pushes, change, live }
}

const stored = (file: ScriptedConfigFile) => JSON.parse(file.text ?? 'null') as Record<string, unknown>

describe('a patch', () => {
  test('is written, answered and pushed', async () => {
    const { file, pushes, change, live } = await startHostWithFile()
    const answer = await change({ sandbox: { concurrency: 5 } })
    expect(answer).toMatchObject({
      ok: true,
      value: { applied: 'live', config: { sandbox: { concurrency: 5 } } },
    })
    expect(stored(file)).toEqual({ repos: {}, sandbox: { concurrency: 5 } })
    expect(pushes).toMatchObject([{ type: 'config', config: { sandbox: { concurrency: 5 } } }])
    expect(live().sandbox.concurrency).toBe(5)
  })

  test('that is refused leaves the file’s bytes unchanged and pushes nothing', async () => {
    const { file, pushes, change } = await startHostWithFile('{ "repos" : {} }')
    expect(await change({ sandbox: { concurrency: 0 } })).toMatchObject({
      ok: false,
      refusal: { kind: 'invalid' },
    })
    expect(file.text).toBe('{ "repos" : {} }')
    expect(pushes).toEqual([])
  })

  test('that changes nothing writes nothing', async () => {
    const { file, pushes, change } = await startHostWithFile('{ "sandbox" : {"concurrency":3} }')
    expect(await change({ sandbox: { concurrency: 3 } })).toMatchObject({
      ok: true,
      value: { applied: 'live' },
    })
    expect(file.writes).toBe(0)
    expect(pushes).toEqual([])
  })

  test('many at once are applied one after the other, none lost', async () => {
    const { file, host, clock } = await startHostWithFile()
    const answers = Array.from({ length: 20 }, (_, at) =>
      host.hostApi.changeSettings({ repos: { [`r${at}`]: { remote: `o/r${at}` } } }),
    )
    await clock.settle()
    expect((await Promise.all(answers)).every((answer) => answer.ok)).toBe(true)
    expect(Object.keys(stored(file).repos as object)).toHaveLength(20)
    expect(file.writes).toBe(20)
  })

  test('too many at once are refused, and the others are applied', async () => {
    const { host, clock, file } = await startHostWithFile()
    const answers = Array.from({ length: SETTINGS_CHANGES_WAITING_MAX + 10 }, (_, at) =>
      host.hostApi.changeSettings({ repos: { [`r${at}`]: { remote: 'o/r' } } }),
    )
    await clock.settle()
    const all = await Promise.all(answers)
    const refused = all.filter((answer) => !answer.ok)
    expect(refused.length).toBeGreaterThan(0)
    expect(refused).toEqual(
      refused.map(() => ({ ok: false, refusal: expect.objectContaining({ kind: 'unavailable' }) })),
    )
    expect(file.writes).toBe(all.length - refused.length)
  })

  test('fails with a reason when the file cannot be written, and nothing has changed', async () => {
    const { file, change, live } = await startHostWithFile()
    file.failWith = 'ENOSPC: no space left on device'
    expect(await change({ sandbox: { concurrency: 5 } })).toMatchObject({
      ok: false,
      refusal: { kind: 'failed', message: expect.stringContaining('ENOSPC') },
    })
    expect(live().sandbox.concurrency).toBe(2)
    file.failWith = undefined
    expect(await change({ sandbox: { concurrency: 5 } })).toMatchObject({ ok: true })
  })

  test('is refused rather than lost while the host is stopping', async () => {
    const { host, clock, change } = await startHostWithFile()
    host.stop('enough')
    await clock.settle()
    expect(await change({ sandbox: { concurrency: 5 } })).toMatchObject({
      ok: false,
      refusal: { kind: 'unavailable' },
    })
  })
})

describe('a hand edit', () => {
  test('takes effect without a restart and is pushed', async () => {
    const { file, clock, pushes, live } = await startHostWithFile()
    file.edit('{"sandbox":{"concurrency":7}}')
    await clock.settle()
    expect(live().sandbox.concurrency).toBe(7)
    expect(pushes).toHaveLength(1)
  })

  test('may change credentials, and only the mask is shown', async () => {
    const { file, clock, live, pushes } = await startHostWithFile()
    file.edit('{"tracker":{"apiKey":"lin_api_planted_secret"}}')
    await clock.settle()
    expect(live().tracker.apiKey).toBe('***')
    expect(JSON.stringify(pushes)).not.toContain('planted')
  })

  test('that is invalid is logged with its field and ignored; the last valid configuration stays', async () => {
    const { file, clock, live, pushes, log } = await startHostWithFile('{"sandbox":{"concurrency":7}}')
    file.edit('{"sandbox":{"concurrency":"many"}}')
    await clock.advance(CONFIG_SETTLE_MS)
    expect(live().sandbox.concurrency).toBe(7)
    expect(pushes).toEqual([])
    expect(JSON.stringify(log.lines)).toContain('/sandbox/concurrency')
  })

  test.each([
    ['', 'emptied'],
    ['{"sandbox":{"concur', 'half written'],
    [undefined, 'moved away'],
  ])(
    'for which the file is %j (%#) for a moment takes effect without a word about the moment: %s',
    async (moment, _name) => {
      const { file, clock, live, log, change } = await startHostWithFile('{"sandbox":{"concurrency":7}}')
      file.edit(moment)
      await clock.advance(CONFIG_SETTLE_MS / 2)
      expect(live().sandbox.concurrency).toBe(7)
      const patched = change({ agent: { maxTurns: 9 } })
      file.edit('{"sandbox":{"concurrency":8}}')
      await clock.advance(CONFIG_SETTLE_MS)
      expect(await patched).toMatchObject({ ok: true })
      expect(stored(file)).toEqual({ sandbox: { concurrency: 8 }, agent: { maxTurns: 9 } })
      expect(live().sandbox.concurrency).toBe(8)
      expect(log.lines.filter(({ level }) => level === 'error')).toEqual([])
    },
  )

  test('that stays broken is logged once, and one that changes all the time too', async () => {
    const { file, clock, log } = await startHostWithFile('{"sandbox":{"concurrency":7}}')
    const errors = () => log.lines.filter(({ level }) => level === 'error').length
    file.edit('')
    await clock.advance(CONFIG_SETTLE_MS * 3)
    expect(errors()).toBe(1)
    for (let part = 0; part <= CONFIG_SETTLE_TRIES_MAX; part++) {
      file.edit(`{${' '.repeat(part)}`, part === 0)
      await clock.advance(CONFIG_SETTLE_MS)
    }
    expect(errors()).toBe(2)
  })

  test('that is not JSON does not put the file’s text into the log', async () => {
    const { file, clock, log } = await startHostWithFile()
    file.edit('{"tracker":{"apiKey":"planted_secret_value"')
    await clock.advance(CONFIG_SETTLE_MS)
    expect(JSON.stringify(log.lines)).not.toContain('planted_secret_value')
  })

  test('that is invalid and then patched: the patch applies to the last valid configuration, and the edit is saved as a copy', async () => {
    const { file, clock, change } = await startHostWithFile('{"sandbox":{"concurrency":7}}')
    file.edit('{ broken')
    await clock.advance(CONFIG_SETTLE_MS)
    expect(await change({ agent: { maxTurns: 9 } })).toMatchObject({ ok: true })
    expect(stored(file)).toEqual({ sandbox: { concurrency: 7 }, agent: { maxTurns: 9 } })
    expect(file.copies).toEqual(['{ broken'])
  })

  test('that was not read yet is not lost under a patch: both are in the file', async () => {
    const { file, change, live } = await startHostWithFile('{}')
    file.edit('{"sandbox":{"concurrency":7}}', false)
    expect(await change({ agent: { maxTurns: 9 } })).toMatchObject({ ok: true })
    expect(stored(file)).toEqual({ sandbox: { concurrency: 7 }, agent: { maxTurns: 9 } })
    expect(live()).toMatchObject({ sandbox: { concurrency: 7 }, agent: { maxTurns: 9 } })
  })

  test('in the middle of a patch makes the host decide the patch again', async () => {
    const { file, change } = await startHostWithFile('{}')
    let edits = 1
    file.beforeReplace = () => {
      if (edits-- > 0) file.edit('{"sandbox":{"concurrency":7}}', false)
    }
    expect(await change({ agent: { maxTurns: 9 } })).toMatchObject({ ok: true })
    expect(stored(file)).toEqual({ sandbox: { concurrency: 7 }, agent: { maxTurns: 9 } })
  })

  test('that repeats without end does not make a patch wait for ever', async () => {
    const { file, change } = await startHostWithFile('{}')
    let n = 0
    file.beforeReplace = () => file.edit(`{"sandbox":{"concurrency":${1 + (n++ % 60)}}}`, false)
    expect(await change({ agent: { maxTurns: 9 } })).toMatchObject({
      ok: false,
      refusal: { kind: 'conflict' },
    })
  })

  test('is not confused with the host’s own write', async () => {
    const { file, change, clock, pushes } = await startHostWithFile()
    await change({ sandbox: { concurrency: 5 } })
    file.edit(file.text)
    await clock.settle()
    expect(pushes).toHaveLength(1)
  })

  test('a deleted file is ignored until it is back', async () => {
    const { file, clock, live } = await startHostWithFile('{"sandbox":{"concurrency":7}}')
    file.edit(undefined)
    await clock.advance(CONFIG_SETTLE_MS)
    expect(live().sandbox.concurrency).toBe(7)
    file.edit('{"sandbox":{"concurrency":8}}')
    await clock.advance(CONFIG_SETTLE_MS)
    expect(live().sandbox.concurrency).toBe(8)
  })
})
