/** A first session with the client commands: a real host, real runs, and every answer as a person gets it. */
import { expect, test } from '@jest/globals'
import { runCommand } from '../support/command-process.ts'
import { LocalSystem } from '../support/local-system.ts'

const SCRIPT = ['```switchyard', 'run date +%s%N > hello.txt', 'commit Hello', 'say Done.', '```'].join('\n')
const TEST_MS_MAX = 240_000

test(
  'a run is started from words, watched, read, explained, queued again and its sandbox deleted',
  async () => {
    const system = await LocalSystem.open({ local: true })
    await system.waitForOnlineWorkers(1)
    const switchyard = async (...args: readonly string[]) => {
      const command = runCommand([...args, '--data-dir', system.dataDir])
      const code = await command.exit
      return { code, out: command.out(), err: command.err() }
    }

    const quiet = await switchyard('status')
    expect([quiet.code, quiet.out]).toEqual([
      0,
      expect.stringMatching(/^0 runs active, 0 queued, nothing needs you\n/),
    ])

    const started = await switchyard(
      'start',
      'Greet people',
      '--repo',
      'plain',
      '--description',
      SCRIPT,
      '--watch',
    )
    expect(started.code).toBe(0)
    const [created = '', ended] = started.out.split('\n')
    const [name = '', digits = ''] =
      /^(\S+) created in \S+, run ([0-9a-f]{12}) queued$/.exec(created)?.slice(1) ?? []
    expect(ended).toMatch(/^\d\d:\d\d:\d\d completed in \S+/)
    expect(started.err).toMatch(/^\d\d:\d\d:\d\d preparing/m)

    const listed = await switchyard('runs', '-o', 'id')
    expect(listed.out).toMatch(new RegExp(`^run-${digits}[0-9a-f]{20}\n$`))
    expect((await switchyard('runs', 'show', digits)).out).toContain(`${name}  Greet people`)
    expect((await switchyard('logs', name)).out).toMatch(/^-- completed +\d\d:\d\d:\d\d {2}in \S+/m)
    expect((await switchyard('explain', name)).out).toMatch(new RegExp(`^${name} `))

    expect(await switchyard('retry', name)).toEqual({ code: 0, out: `${name} queued\n`, err: '' })
    expect(await switchyard('runs', 'wait', name)).toMatchObject({ code: 0 })
    expect((await switchyard('discard', name)).code).toBe(2)
    expect((await switchyard('discard', name, '--yes')).code).toBe(0)
    const shown = JSON.parse((await switchyard('runs', 'show', name, '--json')).out)
    expect(Date.parse(shown.sandbox.retainedUntil)).toBeLessThanOrEqual(Date.now())
  },
  TEST_MS_MAX,
)
